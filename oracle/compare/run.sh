#!/bin/sh
# run.sh: asks other estimators the five jobs of docs/lab/other-tools.md and prints its table, with every command. The truth is
# rows of estimator/accuracy/testdata, the models are these rows' configurations. Two virtual environments are made in
# $ORACLE_DIR (.oracle in the repository): a small one of tools.txt, and oracle's own with PyTorch for accelerate, of about
# 7 GB; ORACLE_VENV names one that is there already. Neither a GPU nor the Hugging Face Hub is needed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=${ORACLE_DIR:-$here/../../.oracle}
mkdir -p "$root/compare"
root=$(cd "$root" && pwd)

make_venv() { # directory, requirements, where the requirements that it was made of are kept
  if ! cmp -s "$2" "$3"; then
    "${PYTHON:-python3}" -m venv "$1"
    "$1/bin/pip" install --quiet -r "$2"
    cp "$2" "$3"
  fi
}

stack=torch-2.15
make_venv "$root/compare/venv" "$here/tools.txt" "$root/compare/pinned"
torch=${ORACLE_VENV:-$root/$stack/venv}
if [ -z "${ORACLE_VENV:-}" ]; then
  mkdir -p "$root/$stack"
  make_venv "$torch" "$here/../stacks/$stack.txt" "$root/$stack/pinned"
fi
(cd "$here/../.." && CGO_ENABLED=0 ${GO:-go} build -trimpath -o "$root/compare/vramplan" ./cmd/vramplan)
date +%F
"$root/compare/venv/bin/pip" list --format=freeze | grep -E '^(fitcheck|vramcalc)'
"$torch/bin/pip" list --format=freeze | grep -E '^(accelerate|torch|transformers)=='
PYTHONDONTWRITEBYTECODE=1 exec "${PYTHON:-python3}" "$here/compare.py" --work "$root/compare" \
  --tools "$root/compare/venv/bin" --torch "$torch/bin/python" --vramplan "$root/compare/vramplan"
