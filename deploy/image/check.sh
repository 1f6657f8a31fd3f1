#!/bin/bash
# Builds the image of the Dockerfile, as it is, with buildah, and runs what came out as an
# orchestrator would: as 65532, without privileges, on a root that cannot be written. Needs root and
# Debian's buildah, debootstrap, util-linux and curl, the Go that builds the program, and no daemon.
#
# The base image of the build stage is pulled with --pull. Without it, it is made of Debian's packages
# and this machine's Go under the name that the Dockerfile has, for machines that reach no hub.
set -euo pipefail
cd "$(dirname "$0")/../.."

pull=
case "${1:-}" in
  --pull) pull=yes ;;
  '') ;;
  *) echo "usage: $0 [--pull]" >&2; exit 2 ;;
esac
[ "$(id -u)" = 0 ] || { echo "root is needed, to make file systems" >&2; exit 2; }
for program in buildah curl setpriv unshare; do
  command -v "$program" >/dev/null || { echo "$program is needed: apt-get install buildah curl util-linux" >&2; exit 2; }
done

work=$(mktemp -d /var/tmp/vramplan-image.XXXXXX)
service=
end() {
  [ -z "$service" ] || kill -KILL "$service" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap end EXIT
# Storage of its own, without overlays, so that it works in a container and leaves nothing behind.
buildah() { command buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
say() { printf '== %s\n' "$*"; }
fail() { echo "FAILED: $*" >&2; [ ! -s "$work/log" ] || tail -n 20 "$work/log" >&2; exit 1; }

base=$(awk '$1 == "FROM" { print $2; exit }' Dockerfile)
if [ -z "$pull" ]; then
  say "making $base of Debian and $(go env GOVERSION)"
  command -v debootstrap >/dev/null || { echo "debootstrap is needed: apt-get install debootstrap, or $0 --pull" >&2; exit 2; }
  case "$base" in
    golang:"$(go env GOVERSION | sed s/^go//)"-*) ;;
    *) echo "note: the Dockerfile has $base, this machine $(go env GOVERSION)" ;;
  esac
  debootstrap --variant=minbase --include=ca-certificates "${base##*-}" "$work/debian" >"$work/log" 2>&1 || fail debootstrap
  container=$(buildah from scratch)
  buildah copy -q "$container" "$work/debian" / >/dev/null
  buildah copy -q "$container" "$(go env GOROOT)" /usr/local/go >/dev/null
  # Where modules come through a proxy with a certificate of its own, this machine knows it.
  buildah copy -q "$container" "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" /etc/ssl/certs/ca-certificates.crt >/dev/null
  buildah config --env PATH=/go/bin:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --env GOPATH=/go --env GOTOOLCHAIN=local \
    --env GOPROXY="$(go env GOPROXY)" --env GOSUMDB="$(go env GOSUMDB)" --workingdir /go "$container"
  buildah commit -q --rm "$container" "docker.io/library/$base" >/dev/null
  rm -rf "$work/debian"
fi

say "building the Dockerfile"
# The modules and what was compiled before come from this machine; without them the build downloads and compiles all of it.
buildah build --isolation chroot --network host --format docker --pull=$([ -n "$pull" ] && echo ifmissing || echo never) \
  --volume "$(go env GOMODCACHE):/go/pkg/mod" --volume "$(go env GOCACHE):/root/.cache/go-build" --build-arg VERSION=v0-check -t vramplan:check . >"$work/log" 2>&1 || fail "the build"

container=$(buildah from --pull=never vramplan:check)
root=$(buildah mount "$container")
config() { buildah inspect --type image --format "{{$1}}" vramplan:check; }
[ "$(config .Docker.Config.User)" = 65532:65532 ] || fail "the user is $(config .Docker.Config.User)"
[ "$(config .Docker.Config.Entrypoint)" = "[/vramplan]" ] || fail "the entrypoint is $(config .Docker.Config.Entrypoint)"
[ "$(config .Docker.Config.Healthcheck.Test)" = "[CMD /vramplan health]" ] || fail "the health check is $(config .Docker.Config.Healthcheck.Test)"
files=$(cd "$root" && find . -mindepth 1 -maxdepth 1 | sort | tr '\n' ' ')
[ "$files" = "./data ./etc ./licenses ./sbom.cdx.json ./vramplan " ] || fail "the image has $files"
[ -s "$root/licenses/github.com/vramplan/vramplan/LICENSE" ] && [ -s "$root/licenses/modernc.org/sqlite/LICENSE" ] || fail "the image has no licences"
grep -q '"bomFormat": "CycloneDX"' "$root/sbom.cdx.json" && grep -q 'pkg:golang/modernc.org/sqlite@' "$root/sbom.cdx.json" || fail "the image does not say of what it consists"
authorities=$(grep -c 'BEGIN CERTIFICATE' "$root/etc/ssl/certs/ca-certificates.crt") || true
[ "${authorities:-0}" -ge 100 ] && [ "$(find "$root/etc" -type f | wc -l)" = 1 ] || fail "the image knows ${authorities:-no} certificate authorities"
[ "$(stat -c %u:%g "$root/data")" = 65532:65532 ] || fail "/data is $(stat -c %u:%g "$root/data")'s"
bytes=$(stat -c %s "$root/vramplan")
say "the image has /vramplan, $((bytes / 1024 / 1024)) MiB, /licenses, /sbom.cdx.json and /data"

# The image's own settings, but for the port, and a root like a container's: read-only, with what runtimes add.
port=${PORT:-18080}
mapfile -t settings < <(buildah inspect --type image --format '{{range .Docker.Config.Env}}{{println .}}{{end}}' vramplan:check | grep .)
cp -a "$root" "$work/root"
mkdir -p "$work/root/tmp" "$work/volume"
chown 65532:65532 "$work/volume" # a new volume takes this from the image's folder
enter='mount --bind "$0" "$0" && mount --bind "$1" "$0/data" && mount -o remount,bind,ro "$0" && mount -t tmpfs tmpfs "$0/tmp" || exit 99
  root=$0 && shift && exec setpriv --no-new-privs unshare --root="$root" --wd=/data --setgid=65532 --setuid=65532 /vramplan "$@"'
inside=(env -i "${settings[@]}" VRAMPLAN_LISTEN="0.0.0.0:$port" PATH="$PATH")
arguments=(unshare --mount sh -c "$enter" "$work/root" "$work/volume")
start() { # with more settings
  "${inside[@]}" "$@" "${arguments[@]}" serve >"$work/log" 2>&1 &
  service=$!
  for _ in $(seq 100); do
    curl -fsS -o "$work/ready" "http://127.0.0.1:$port/readyz" 2>/dev/null && return
    kill -0 "$service" 2>/dev/null || fail "the service ended"
    sleep 0.1
  done
  fail "the service does not get ready"
}
stop() {
  kill -TERM "$service"
  wait "$service" || fail "the service ended with $? after SIGTERM"
  service=
}
ask() { curl -fsS "$@" || fail "curl $*"; }

say "running it"
start
ask "http://127.0.0.1:$port/healthz" >/dev/null
grep -q '^Uid:	65532	65532	65532	65532$' "/proc/$service/status" || fail "it runs as $(grep Uid "/proc/$service/status")"
grep -q '^CapEff:	0*$' "/proc/$service/status" && grep -q '^NoNewPrivs:	1$' "/proc/$service/status" || fail "it has privileges"
job='{"model": {"preset": "openai-community/gpt2"}, "training": {"micro_batch": 4, "sequence_length": 1024, "optimizer": "adamw"}, "gpus": ["rtx-4090"]}'
ask "http://127.0.0.1:$port/v1/estimate" -H 'Content-Type: application/json' -d "$job" | grep -q '"verdict":' || fail "no verdict"
"${inside[@]}" "${arguments[@]}" health || fail "the health check ended with $?"
[ "$(stat -c %u "$work/volume/vramplan.db")" = 65532 ] || fail "the database is not in the volume"
"${inside[@]}" "${arguments[@]}" version | grep -q v0-check || fail "it does not know its version"
key=$("${inside[@]}" "${arguments[@]}" keys create --name check --scope catalog:write 2>"$work/note") || fail "keys create"
# The key and what it writes outlive the process.
ask -X PUT "http://127.0.0.1:$port/v1/gpus/check-card" -H "Authorization: Bearer $key" -H 'If-None-Match: *' -H 'Content-Type: application/json' \
  -d '{"name": "check", "vendor": "NVIDIA", "memory_bytes": 8589934592, "usable_bytes": 8500000000}' >/dev/null
resident=$(awk '$1 == "VmRSS:" { print int($2 / 1024) }' "/proc/$service/status")

say "stopping it: SIGTERM while a request is under way"
{ echo "$job"; sleep 1; echo "$job"; } | curl -sS -T - -X POST -H 'Content-Type: application/x-ndjson' "http://127.0.0.1:$port/v1/estimate/batch" >"$work/batch" &
request=$!
sleep 0.5
stop
wait "$request" && [ "$(grep -c '"verdict":' "$work/batch")" = 2 ] || fail "a request was lost: $(cat "$work/batch")"
if "${inside[@]}" "${arguments[@]}" health 2>/dev/null; then fail "the health check is well without a service"; fi

say "starting it again, on what it left"
start
ask "http://127.0.0.1:$port/v1/gpus/check-card" >/dev/null
stop
say "and on a file in the root, which cannot be written"
if "${inside[@]}" VRAMPLAN_DATABASE=file:/vramplan.db timeout 20 "${arguments[@]}" serve >"$work/log" 2>&1; then fail "it served"; fi
[ ! -e "$work/root/vramplan.db" ] || fail "the root was written"
say "passed: a binary of $((bytes / 1024 / 1024)) MiB, $resident MiB resident"
