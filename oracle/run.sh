#!/bin/sh
# run.sh STACK [jobs.ndjson]: traces the corpus with the releases of stacks/STACK.txt and holds the estimator against it: jobs of
# a trainer in the trainer itself, the others in a plain loop. With
# CROSSES=n it draws n crosses of families and recipes from SEED (20) instead, and compares them event by event, in a plain loop. With
# FLIPS=n it draws n jobs of the Trainer in which one thing is otherwise, goes on where it stopped, and keeps what differs. With
# DRIFT=library it says which rows of the table of releases, of that library, the traces of the stack show.
# Everything that is made lies in $ORACLE_DIR (.oracle in the repository): a virtual environment of about 7 GB, the driver,
# the traced rows. Neither a GPU nor Docker is needed; gcc, nm, Python 3.10 to 3.12 and 4 GB of memory are.
set -eu
stack=$1
here=$(cd "$(dirname "$0")" && pwd)
jobs=${2:-$here/corpus.ndjson}
root=${ORACLE_DIR:-$here/../.oracle}
mkdir -p "$root"
root=$(cd "$root" && pwd)
pinned=$here/stacks/$stack.txt
[ -e "$pinned" ] || { echo "no stack $stack; there are: $(cd "$here/stacks" && ls | sed 's/\.txt$//' | tr '\n' ' ')" >&2; exit 2; }
venv=${ORACLE_VENV:-$root/$stack/venv}
if [ -z "${ORACLE_VENV:-}" ] && ! cmp -s "$pinned" "$root/$stack/pinned"; then
  mkdir -p "$root/$stack"
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" install --quiet -r "$pinned"
  cp "$pinned" "$root/$stack/pinned"
fi
"$here/driver/build.sh" "$venv" "$root/$stack/driver"
trace() { STANDIN=$root/$stack/driver PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" "$here/trace.py" "$@"; }
if [ -n "${CROSSES:-}" ]; then
  seed=${SEED:-20}
  jobs=$root/$stack/crosses-$seed.ndjson
  rows=$root/$stack/crosses-$seed.jsonl
  "$venv/bin/python" "$here/crosses.py" "$CROSSES" --seed "$seed" > "$jobs"
  trace "$jobs" --out "$rows" --events || echo "what PyTorch itself refuses is in no comparison" >&2
  cd "$here/.." && exec ${GO:-go} run ./estimator/crosses "$rows"
fi
judged() { STANDIN=$root/$stack/driver PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" "$here/judges.py" "$@"; }
if [ -n "${FLIPS:-}" ]; then
  seed=${SEED:-39}
  jobs=$root/$stack/flips-$seed.ndjson
  rows=$root/$stack/flips-$seed.jsonl
  versions=$("$venv/bin/python" -c 'import importlib.metadata as m, json; print(json.dumps({n: m.version(n).split("+")[0] for n in ("torch", "transformers")}))')
  "$venv/bin/python" "$here/flips.py" "$FLIPS" --seed "$seed" --versions "$versions" > "$jobs"
  judged "$jobs" --out "$rows"
  cd "$here/.." && exec ${GO:-go} run ./reliability/judged -keep "$root/$stack/flips-$seed-differing.jsonl" "$rows"
fi
if [ -n "${DRIFT:-}" ]; then
  rows=$root/$stack/drift.jsonl
  trace "$jobs" --out "$rows" --events || echo "what this release itself refuses is in no comparison" >&2
  cd "$here/.." && exec ${GO:-go} run ./oracle/drift -library "$DRIFT" -stack "$stack" "$rows"
fi
name=$root/$stack/$(basename "$jobs" .ndjson)
judged "$jobs" --out "$name-trainers.jsonl" --plain "$name-plain.ndjson"
trace "$name-plain.ndjson" --out "$name.jsonl" --limits
cd "$here/.."
if [ -s "$name-trainers.jsonl" ]; then ${GO:-go} run ./reliability/judged "$name-trainers.jsonl"; fi
if [ -s "$name.jsonl" ]; then ${GO:-go} run ./estimator/accuracy "$name.jsonl"; fi
