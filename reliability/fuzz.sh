#!/usr/bin/env bash
# Runs fuzz targets one after the other, each as package:name, for the time in FUZZTIME.
#
# Until Go 1.27 a target now and then fails with the bare words "context deadline exceeded" when its time is up, without any
# input that fails: the coordinator sees that its own deadline has passed before it has told its workers
# (go.dev/issue/75804). Such an end, and no other, says nothing about the target, which is then run again; three of them in
# a row fail.
set -euo pipefail
go=${GO:-go}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Whether the run in $log failed of nothing but its own deadline: the line under FAIL is the deadline's, and
# no input was written down.
ended_at_its_deadline() {
  grep -A1 -E '^--- FAIL: Fuzz[A-Za-z0-9_]+ \(' "$log" | grep -qxE ' +context deadline exceeded' &&
    ! grep -qE 'Failing input written|panic:|hung or terminated' "$log"
}

for target in "$@"; do
  echo "== $target"
  for try in 1 2 3; do
    # Little of the time goes into making inputs smaller.
    if "$go" test -run '^$' -fuzz "^${target#*:}\$" -fuzztime "${FUZZTIME:-20s}" -fuzzminimizetime 10x "${target%:*}" 2>&1 | tee "$log"; then
      break
    fi
    if [ "$try" = 3 ] || ! ended_at_its_deadline; then
      exit 1
    fi
    echo "$target ended at its own deadline without an input that fails; once more"
  done
done
