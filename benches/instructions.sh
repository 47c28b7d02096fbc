#!/usr/bin/env bash
# Counts the instructions of a run of the reference workload, family by family, and fails where one
# costs more than the committed figure allows. Valgrind counts what the workers of a campaign execute, at
# two numbers of runs; their difference leaves out everything that happens once.
#
#   benches/instructions.sh BINARY            compare with benches/instructions.txt
#   benches/instructions.sh BINARY --update   write benches/instructions.txt
set -euo pipefail
binary=$(realpath "$1")
update=${2:-}
cd "$(dirname "${BASH_SOURCE[0]}")"

few=100
many=300
worker='holdback_sim::campaign::campaign::{{closure}}*'
# Percent above the committed figure that still pass: compilers and C libraries differ a little.
tolerance=10

count() { # POLICY RUNS
  valgrind --tool=callgrind --callgrind-out-file=/dev/null \
    --collect-atstart=no "--toggle-collect=$worker" \
    "$binary" compare --scenario reference.toml --policy "policies/$1.toml" \
    --runs "$2" --threads 1 --quiet --format csv 2>&1 >/dev/null |
    sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

figures=()
failed=0
for family in run_limits usage_limits caps; do
  a_run=$((($(count "$family" $many) - $(count "$family" $few)) / (many - few)))
  if [ "$a_run" -le 0 ]; then
    echo "no worker was found in $binary: it has other symbols, or none" >&2
    exit 1
  fi
  figures+=("$family $a_run")
  [ -n "$update" ] && continue
  known=$(sed -n "s/^$family //p" instructions.txt)
  most=$((known * (100 + tolerance) / 100))
  printf '%-12s %7d instructions a run, %d committed, at most %d\n' "$family" "$a_run" "$known" "$most"
  [ "$a_run" -le "$most" ] || failed=1
done

if [ -n "$update" ]; then
  printf '%s\n' "${figures[@]}" | tee instructions.txt
fi
if [ "$failed" = 1 ]; then
  echo 'a run has become dearer: find out why, or commit the new figure with its reason' >&2
fi
exit "$failed"
