#!/usr/bin/env bash
# Builds the wheel of this machine into dist/, installs it into a new environment and tests it there. Needs Go and Python 3 with venv.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r clients/python "$work/source"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' clients/python/pyproject.toml)
CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.stamped=v$version" -o "$work/source/vramplan/bin/vramplan" ./cmd/vramplan
deploy/image/licenses.sh "$work/source/licenses"
deploy/image/sbom.sh "$work/source/vramplan/bin/vramplan" "$work/source/vramplan/sbom.cdx.json"
python3 -m venv "$work/venv"
if mv "$work/source/vramplan/bin" "$work/bin" && "$work/venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work" "$work/source" 2>/dev/null; then
  echo "a wheel was made without its program" >&2
  exit 1
fi
mv "$work/bin" "$work/source/vramplan/bin"
rm -f dist/vramplan-*.whl
"$work/venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist "$work/source"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-index --find-links dist --force-reinstall vramplan
ls -l dist/vramplan-*.whl
cd "$work" && cp source/tests/test_wheel.py . && rm -rf source && venv/bin/python -m unittest test_wheel
