#!/bin/sh
# compare.sh [cases.jsonl ...]: records the models of the reference cases from transformers' own code, and holds each recording's answer against that
# of the family that was described by hand, for the recorded releases. STACK=torch-2.9 takes those of oracle/stacks/torch-2.9.txt and not of torch 2.15.
# Everything that is made lies in $RECORDER_DIR (.recorder in the repository): a virtual environment of about 7 GB, for releases before 2.15 the
# stand-in driver of oracle/, without which they cannot run fake CUDA tensors (gcc and nm are needed), and the recordings. RECORDER_VENV=/path takes
# an environment that is there already, STANDIN=/path its driver; ONLY=llama,gpt2 records these model types alone, COMPILED=1 those of jobs under
# torch.compile, which are held against their traces. An interrupted run goes on where it stopped.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
go=${GO:-go}
stack=${STACK:-torch-2.15}
root=${RECORDER_DIR:-$here/../.recorder}/$stack
pinned=$here/../oracle/stacks/$stack.txt
[ -e "$pinned" ] || { echo "no stack $stack; oracle/stacks has: $(cd "$here/../oracle/stacks" && ls | sed 's/\.txt$//' | tr '\n' ' ')" >&2; exit 2; }
mkdir -p "$root"
root=$(cd "$root" && pwd)
venv=${RECORDER_VENV:-$root/venv}
if [ -z "${RECORDER_VENV:-}" ] && ! cmp -s "$pinned" "$root/pinned"; then
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" install --quiet -r "$pinned" "$here"
  cp "$pinned" "$root/pinned"
fi
driver=
if [ "$stack" != torch-2.15 ]; then
  [ -n "${STANDIN:-}" ] || "$here/../oracle/driver/build.sh" "$venv" "$root/driver"
  driver=${STANDIN:-$root/driver}/libcuda.so.1
fi
cd "$here/.."
$go run ./estimator/accuracy -to-record ${COMPILED:+-compiled} "$@" > "$root/wanted.ndjson"
${driver:+env LD_PRELOAD="$driver"} "$venv/bin/python" recorder/families.py "$root/wanted.ndjson" --out "$root/recordings" ${ONLY:+--only "$ONLY"}
exec $go run ./estimator/accuracy -recordings "$root/recordings" ${COMPILED:+-compiled} "$@"
