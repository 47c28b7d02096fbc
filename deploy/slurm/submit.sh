#!/usr/bin/env bash
# Submits a study as an array of shards and a merge that waits for all of them.
#
#   submit.sh FOLDER SHARDS [arguments of holdback compare]
#
# FOLDER is on a file system that all nodes share; the report will be in FOLDER/report. Prints the ids of
# the array and of the merge. HOLDBACK names the binary, where it is not `holdback` on the PATH; options of
# sbatch can be given by its own variables, such as SBATCH_PARTITION.
set -euo pipefail

if (($# < 2)) || [[ ! $2 =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: submit.sh FOLDER SHARDS [arguments of holdback compare]" >&2
  exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(realpath -m "$1")
count=$2
shift 2
mkdir -p "$folder/logs"

array=$(sbatch --parsable --array="1-$count" --output="$folder/logs/shard-%a.log" \
  "$here/study.sbatch" "$folder" "$@")
# A merge whose array fails for good would wait for ever: it is taken from the queue instead.
merge=$(sbatch --parsable --dependency="afterok:$array" --kill-on-invalid-dep=yes \
  --output="$folder/logs/merge.log" "$here/merge.sbatch" "$folder" "$count")
echo "$array $merge"
