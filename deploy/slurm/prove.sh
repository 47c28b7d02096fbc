#!/usr/bin/env bash
# Proves the Slurm path on one machine: installs Debian's slurm-wlm, starts a controller and a node, runs
# a study as an array, kills two of its tasks midway, and compares the merged report with a local run,
# byte by byte. Prints PASS and exits 0, or says what is wrong.
#
#   prove.sh [BINARY]      as root, on Debian; BINARY is target/release/holdback without it
#
# Everything runs from a folder of its own with keys, ports and configuration of its own, and ends with
# the script; a Slurm that is already on the machine is not touched.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
HOLDBACK=$(realpath "${1:-$here/../../target/release/holdback}")
export HOLDBACK
SHARDS=4
# Long enough for a kill in the middle: several seconds a shard on any machine of today.
RUNS=${RUNS:-60000}
STUDY=(--runs "$RUNS" --seed 11 --per-run --scenario scheduled-briefing --scenario tool-hungry
  --scenario coding-agent --policy 'no reserve' --policy 'cost reserve 1.00')

say() { printf '%s\n' "$*"; }
fail() {
  say "FAIL: $*"
  tail -n 5 "$root"/logs/*.log "$root"/study/logs/*.log 2>/dev/null || true
  exit 1
}

root=$(mktemp -d /tmp/holdback-slurm.XXXXXX)
daemons=()
clean_up() {
  for daemon in "${daemons[@]}"; do
    kill "$daemon" 2>/dev/null || true
  done
  wait 2>/dev/null || true
  rm -rf "$root"
}
trap clean_up EXIT

[[ $EUID == 0 ]] || { say 'FAIL: root is needed to install packages and to start slurmd'; exit 1; }
[[ -x $HOLDBACK ]] || { say "FAIL: no binary at $HOLDBACK; build it with: cargo build --release"; exit 1; }

say '== Slurm'
if ! command -v slurmctld slurmd munged >/dev/null; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge >/dev/null
fi
slurmctld -V

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
host=$(hostname -s)
mkdir -m 755 "$root"/{munge,state,spool,logs}
chmod 755 "$root"
head -c 1024 /dev/urandom >"$root/munge/key"
chmod 400 "$root/munge/key"
export SLURM_CONF="$root/slurm.conf"
cat >"$SLURM_CONF" <<EOF
ClusterName=proof
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$root/munge/socket
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
StateSaveLocation=$root/state
SlurmdSpoolDir=$root/spool
SlurmctldPidFile=$root/state/slurmctld.pid
SlurmdPidFile=$root/spool/slurmd.pid
SlurmctldLogFile=$root/logs/slurmctld.log
SlurmdLogFile=$root/logs/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
MailProg=/bin/true
NodeName=$host NodeAddr=127.0.0.1 CPUs=$SHARDS RealMemory=8000 State=UNKNOWN
PartitionName=proof Nodes=$host Default=YES MaxTime=INFINITE State=UP
EOF
munged --foreground --force --socket="$root/munge/socket" --key-file="$root/munge/key" \
  --pid-file="$root/munge/pid" --seed-file="$root/munge/seed" &>"$root/logs/munged.log" &
daemons+=($!)
slurmctld -D &>/dev/null &
daemons+=($!)
slurmd -D &>/dev/null &
daemons+=($!)

# Waits until the command given succeeds.
until_true() {
  local what=$1
  shift
  for _ in {1..1200}; do
    if "$@" &>/dev/null; then return; fi
    sleep 0.1
  done
  fail "waited too long for $what"
}
idle() { [[ $(sinfo --noheader --format=%T) == idle ]]; }
until_true 'the node' idle
sinfo

say "== A study in $SHARDS shards, one task each"
read -r array merge < <("$here/submit.sh" "$root/study" "$SHARDS" "${STUDY[@]}")
say "array $array, merge $merge"

parts() { echo "$root/study/shards/$1-of-$SHARDS/parts"; }
has_a_part() { [[ -s $(parts "$1")/scenario-0.part ]]; }
# The time at which the first scenario's part was written: a part that is kept is never written again.
written() { stat --format=%y "$(parts "$1")/scenario-0.part"; }

until_true 'the first part of shard 2' has_a_part 2
before_kill=$(written 2)
victim=$(pgrep --full "^$HOLDBACK compare .*/2-of-$SHARDS " || true)
[[ -n $victim ]] || fail 'shard 2 ended before it could be killed: raise RUNS'
kill -KILL "$victim"
say 'killed the process of shard 2 (kill -9): its script asks for another try'

until_true 'the first part of shard 3' has_a_part 3
before_requeue=$(written 3)
scontrol requeue "${array}_3"
say 'requeued shard 3 while it ran, as after the failure of its node'

requeued() { [[ $(scontrol show job "${array}_$1") =~ Restarts=([1-9]) ]]; }
until_true 'the requeue of shard 2' requeued 2
until_true 'the requeue of shard 3' requeued 3
squeue --array --format='%.12i %.16j %.10T %.20r'

# A requeued task starts again after the pause that Slurm gives it (two minutes); this skips the pause.
hurry() {
  for task in 2 3; do
    scontrol update "JobId=${array}_$task" StartTime=now &>/dev/null || true
  done
}
for _ in {1..3000}; do
  state=$(scontrol show job "$merge" | grep -o 'JobState=[A-Z_]*')
  case $state in
    JobState=COMPLETED) break ;;
    JobState=PENDING | JobState=RUNNING | JobState=COMPLETING) hurry ;;
    *) fail "the merge is $state" ;;
  esac
  for task in 2 3; do
    first=before_kill
    ((task == 3)) && first=before_requeue
    if has_a_part "$task" && [[ $(written "$task") != "${!first}" ]]; then
      fail "shard $task began again from nothing"
    fi
  done
  sleep 0.2
done
[[ $state == JobState=COMPLETED ]] || fail "the merge is $state"
say 'all shards done, both tasks kept the scenario that they had finished, and the merge ran'
grep -h 'exit code' "$root"/study/logs/shard-*.log || fail 'no task says that it was queued again'

say '== Bad input is not tried again'
read -r array merge < <("$here/submit.sh" "$root/bad" 2 --runs 0)
failed() { [[ $(scontrol show job "${array}_1") =~ JobState=FAILED ]]; }
cancelled() { [[ $(scontrol show job "$merge") =~ JobState=CANCELLED ]]; }
until_true 'the end of the bad study' failed
until_true 'the end of its merge' cancelled
scontrol show job "${array}_1" | grep -o 'ExitCode=.*'
[[ $(scontrol show job "${array}_1") =~ Restarts=0.*ExitCode=2:0 ]] || fail 'bad input was tried again'
cat "$root/bad/logs/shard-1.log"

say '== The same study in one piece'
"$HOLDBACK" compare "${STUDY[@]}" --quiet --out "$root/local" >/dev/null
sums() { (cd "$1" && find . -type f | sort | xargs sha256sum); }
sums "$root/study/report" >"$root/merged.sums"
sums "$root/local" >"$root/local.sums"
diff "$root/merged.sums" "$root/local.sums" || fail 'the files differ'
cat "$root/merged.sums"
say "PASS: $(wc -l <"$root/merged.sums") files are the same, byte by byte"
