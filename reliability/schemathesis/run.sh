#!/usr/bin/env bash
# Sends what schemathesis makes of the OpenAPI document to a service of its own:
# no answer may be a 5xx, each must be of a documented status, type and shape,
# and what the document forbids must be refused. EXAMPLES bounds the requests of
# an operation; VENV keeps the Python environment between runs.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${PYTHON:-python3}
work=$(mktemp -d)
venv=${VENV:-$work/venv}
service=
trap '[ -z "$service" ] || kill "$service" 2>/dev/null || true; rm -rf "$work"' EXIT

[ -x "$venv/bin/schemathesis" ] || {
  "$python" -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r reliability/schemathesis/requirements.txt
}

CGO_ENABLED=0 go build -o "$work/vramplan" ./cmd/vramplan
VRAMPLAN_DATABASE="file:$work/vramplan.db" VRAMPLAN_LISTEN=127.0.0.1:0 VRAMPLAN_LOG_LEVEL=info \
  "$work/vramplan" serve 2>"$work/log" &
service=$!
url=
for _ in $(seq 100); do
  url=$(sed -n 's/.*"url":"\([^"]*\)".*"message":"ready".*/\1/p' "$work/log")
  [ -z "$url" ] || break
  kill -0 "$service" || { cat "$work/log" >&2; exit 1; }
  sleep 0.1
done
[ -n "$url" ] || { echo "the service does not start" >&2; cat "$work/log" >&2; exit 1; }

# What is left out: whether every job that the document allows is accepted, since
# much of what makes a job impossible (heads that do not divide the width) is
# beyond JSON Schema, and 422 is the documented answer.
status=0
SCHEMATHESIS_HOOKS=reliability/schemathesis/hooks.py PYTHONDONTWRITEBYTECODE=1 \
  "$venv/bin/schemathesis" --config-file reliability/schemathesis/schemathesis.toml run "$url/openapi.json" \
  --max-examples "${EXAMPLES:-25}" --seed "${SEED:-1}" \
  --exclude-checks positive_data_acceptance --suppress-health-check filter_too_much,too_slow \
  --warnings off --no-color || status=$?

kill -0 "$service" || { echo "the service is gone" >&2; tail "$work/log" >&2; exit 1; }
if grep -q '"level":"error"' "$work/log"; then
  echo "the service logged errors:" >&2
  grep '"level":"error"' "$work/log" | head >&2
  exit 1
fi
exit "$status"
