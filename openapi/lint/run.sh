#!/usr/bin/env bash
# Holds openapi/openapi.json against the recommended rules of redocly and spectral; errors fail. Needs Node.js 20.
# WORK keeps what was installed between runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=${WORK:-$PWD/bin/openapi-lint}
mkdir -p "$work"
if [ ! -x "$work/node_modules/.bin/redocly" ] || [ ! -x "$work/node_modules/.bin/spectral" ]; then
  npm install --silent --no-audit --no-fund --prefix "$work" @redocly/cli@2.77.0 @stoplight/spectral-cli@6.16.3
fi
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
"$work/node_modules/.bin/redocly" lint --config openapi/lint/redocly.yaml openapi/openapi.json
"$work/node_modules/.bin/spectral" lint --ruleset openapi/lint/spectral.yaml --fail-severity error openapi/openapi.json
