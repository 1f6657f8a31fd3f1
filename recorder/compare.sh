#!/bin/sh
# compare.sh [cases.jsonl ...]: records the models of the reference cases from transformers' own code, and holds each recording's answer against that
# of the family that was described by hand, for the recorded releases. Everything that is made lies in $RECORDER_DIR (.recorder in the repository): a virtual
# environment of the releases in oracle/stacks/torch-2.15.txt, and the recordings. RECORDER_VENV=/path takes an environment that is there already;
# ONLY=llama,gpt2 records these model types alone. An interrupted run goes on where it stopped.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
go=${GO:-go}
root=${RECORDER_DIR:-$here/../.recorder}
mkdir -p "$root"
root=$(cd "$root" && pwd)
venv=${RECORDER_VENV:-$root/venv}
pinned=$here/../oracle/stacks/torch-2.15.txt
if [ -z "${RECORDER_VENV:-}" ] && ! cmp -s "$pinned" "$root/pinned"; then
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" install --quiet -r "$pinned" "$here"
  cp "$pinned" "$root/pinned"
fi
cd "$here/.."
$go run ./estimator/accuracy -to-record "$@" > "$root/wanted.ndjson"
PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" recorder/families.py "$root/wanted.ndjson" --out "$root/recordings" ${ONLY:+--only "$ONLY"}
exec $go run ./estimator/accuracy -recordings "$root/recordings" "$@"
