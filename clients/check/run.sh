#!/usr/bin/env bash
# Generates a client of openapi/openapi.json with each of the generators below, compiles it, and lets it ask a service of its own
# about one job; all of them have to say what the service says. Needs Go, Python 3.11 with venv, Node.js 20, a JDK and Maven.
# "run.sh oapi-codegen" runs one of them. WORK keeps what was installed and generated between runs.
set -euo pipefail
cd "$(dirname "$0")/../.."

root=$PWD check=$PWD/clients/check document=$PWD/openapi/openapi.json
mkdir -p "${WORK:=$root/bin/clients}"
cd "$WORK"

OPENAPI_GENERATOR=openapi-generator-cli==7.26.0
OPENAPI_PYTHON_CLIENT=openapi-python-client==0.29.1
OAPI_CODEGEN=github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2
NODE_PACKAGES=(openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3 @types/node@20)

service=
trap '[ -z "$service" ] || kill "$service" 2>/dev/null || true' EXIT

tools() {
  [ -x tools/bin/openapi-python-client ] || {
    python3 -m venv tools
    tools/bin/pip install --quiet --disable-pip-version-check "$OPENAPI_GENERATOR" "$OPENAPI_PYTHON_CLIENT"
  }
  [ -x node_modules/.bin/openapi-typescript ] || npm install --silent --no-audit --no-fund --prefix . "${NODE_PACKAGES[@]}"
}

serve() {
  rm -f log && touch log
  (cd "$root" && CGO_ENABLED=0 go build -o "$WORK/vramplan" ./cmd/vramplan)
  VRAMPLAN_DATABASE="file:$WORK/vramplan.db" VRAMPLAN_LISTEN=127.0.0.1:0 VRAMPLAN_LOG_LEVEL=info ./vramplan serve 2>log &
  service=$!
  url=
  for _ in $(seq 600); do
    url=$(sed -n 's/.*"url":"\([^"]*\)".*"message":"ready".*/\1/p' log)
    [ -z "$url" ] || return 0
    kill -0 "$service" || { cat log >&2; exit 1; }
    sleep 0.1
  done
  echo "the service does not start" >&2
  exit 1
}

# generate LANGUAGE: what openapi-generator makes of the document without any setting but the package's name.
generate() {
  rm -rf "$1" && mkdir "$1"
  tools/bin/openapi-generator-cli generate -g "$1" -i "$document" -o "$1/client" --package-name "${2:-vramplanapi}" >"$1/log" 2>&1 || { cat "$1/log" >&2; exit 1; }
}

client_openapi-generator-python() {
  generate python
  [ -x python-venv/bin/python ] || python3 -m venv python-venv
  python-venv/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps python/client
  python-venv/bin/pip install --quiet --disable-pip-version-check python/client
  python-venv/bin/python "$check/openapi_generator.py" "$url"
}

client_openapi-generator-go() {
  generate go
  (
    cd go/client
    rm -rf test # needs a library of its own
    sed -i 's|^module .*|module vramplan.test/client|' go.mod
    export GOFLAGS="-mod=mod -trimpath -p=1" CGO_ENABLED=0
    go vet .
    mkdir call && cp "$check/openapi_generator.go" call/main.go
    go run ./call/main.go "$url"
  )
}

client_openapi-generator-java() {
  generate java
  cp "$check/Call.java" java/client/src/main/java/
  (
    cd java/client
    rm -rf src/test
    mvn -q -B -ntp -DskipTests -Dmaven.javadoc.skip=true -Dmaven.source.skip=true package >../maven.log 2>&1 || { tail -40 ../maven.log >&2; exit 1; }
    java -cp "target/classes:target/lib/*" Call "$url"
  )
}

client_openapi-generator-typescript() {
  generate typescript-fetch
  rm -rf typescript && mkdir typescript
  cp "$check/openapi_generator.ts" typescript/call.ts
  mv typescript-fetch/client typescript/client
  node_modules/.bin/tsc --strict --target es2022 --module commonjs --moduleResolution node --skipLibCheck --types node --outDir typescript/out typescript/call.ts
  node typescript/out/call.js "$url"
}

client_openapi-python-client() {
  rm -rf opc && tools/bin/openapi-python-client generate --path "$document" --output-path opc >opc.log 2>&1
  [ -x opc-venv/bin/python ] || python3 -m venv opc-venv
  opc-venv/bin/pip install --quiet --disable-pip-version-check ./opc
  opc-venv/bin/python "$check/openapi_python_client.py" "$url"
}

client_oapi-codegen() {
  rm -rf oapi && mkdir -p oapi/api oapi/call
  cp "$check/oapi_codegen.go" oapi/call/main.go
  (
    cd oapi
    export GOFLAGS="-mod=mod -trimpath -p=1" CGO_ENABLED=0
    go run "$OAPI_CODEGEN" -generate types,client -package api -o api/client.gen.go "$document" 2>generate.log || { cat generate.log >&2; exit 1; }
    go mod init vramplan.test/client 2>/dev/null
    go mod tidy 2>/dev/null
    go vet ./api
    go run ./call/main.go "$url"
  )
}

client_openapi-typescript() {
  rm -rf types && mkdir types
  cp "$check/openapi_typescript.ts" types/call.ts
  node_modules/.bin/openapi-typescript "$document" -o types/schema.d.ts >types/log 2>&1 || { cat types/log >&2; exit 1; }
  node_modules/.bin/tsc --strict --target es2022 --module commonjs --moduleResolution node --skipLibCheck --types node --outDir types/out types/call.ts
  NODE_PATH=node_modules node types/out/call.js "$url"
}

all=(openapi-generator-python openapi-generator-go openapi-generator-java openapi-generator-typescript openapi-python-client oapi-codegen openapi-typescript)
tools
serve
want=$(./vramplan estimate --model gpt2 --micro-batch 8 --sequence-length 1024 --precision amp-bf16 --optimizer adamw_torch_fused --gpu rtx-4090 --output json |
  python3 -c 'import json, sys; r = json.load(sys.stdin); print(r["peak"]["device_bytes"], r["gpus"][0]["verdict"])')
failed=0
for name in "${@:-${all[@]}}"; do
  got=$("client_$name" | tail -n 1) || got="(no answer)"
  if [ "$got" = "$want" ]; then
    printf '%-32s %s\n' "$name" "$got"
  else
    printf '%-32s %s, and the service says %s\n' "$name" "$got" "$want"
    failed=1
  fi
done
exit $failed
