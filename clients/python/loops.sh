#!/bin/sh
# loops.sh STACK [case …]: what the wheel says of training loops, held against transformers' Trainer, Lightning and a plain loop, on the
# stand-in driver of oracle/ and on the CPU. The environment is that of `make oracle STACK=…` ($ORACLE_DIR), with lightning in it:
#   .oracle/torch-2.15/venv/bin/pip install --no-deps lightning pytorch-lightning lightning-utilities torchmetrics
set -eu
cd "$(dirname "$0")/../.."
stack=$1
shift
root=${ORACLE_DIR:-.oracle}/$stack
[ -x "$root/venv/bin/python" ] || { echo "no environment in $root: make oracle STACK=$stack makes one" >&2; exit 2; }
driver=$(cd "$root/driver" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r clients/python/vramplan "$work/"
CGO_ENABLED=0 ${GO:-go} build -o "$work/vramplan/bin/vramplan" ./cmd/vramplan
export PYTHONPATH="$work${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore OMP_NUM_THREADS=1 ORACLE="$PWD/oracle"
echo "on the stand-in driver"
LD_PRELOAD="$driver/libcuda.so.1:$driver/libnvidia-ml.so.1" TRITON_LIBCUDA_PATH="$driver" STANDIN_CC=80 STANDIN_SMS=108 \
  "$root/venv/bin/python" clients/python/tests/real_loops.py "$@"
echo "on the CPU"
"$root/venv/bin/python" clients/python/tests/real_loops.py "$@"
