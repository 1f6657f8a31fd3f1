#!/bin/sh
# Installs the last commit as its users do, by go install PATH@VERSION: from a module proxy in a folder, other modules from wherever
# this machine has them. go install refuses what go build takes, such as a replace directive.
set -eu
module=github.com/vramplan/vramplan version=v0.0.1
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
at=$work/proxy/$module/@v
mkdir -p "$at"
git cat-file -p HEAD:go.mod >"$at/$version.mod"
printf '{"Version":"%s","Time":"2026-01-01T00:00:00Z"}' "$version" >"$at/$version.info"
echo "$version" >"$at/list"
# Folders with a go.mod of their own are other modules.
git archive --format=zip --prefix="$module@$version/" -o "$at/$version.zip" HEAD -- . ':(exclude)deploy/check' ':(exclude)deploy/cockroach'
others=$(go env GOPROXY)
GOPROXY="file://$work/proxy,$others" GONOSUMDB="$module" GOFLAGS=-trimpath GOBIN="$work/bin" \
    go install "$module/cmd/vramplan@$version"
"$work/bin/vramplan" version
"$work/bin/vramplan" estimate --model gpt2 --micro-batch 1 --gpu rtx-4090 >/dev/null
chmod -R u+w "$(go env GOMODCACHE)/$module@$version"
rm -rf "$(go env GOMODCACHE)/$module@$version" "$(go env GOMODCACHE)/cache/download/$module/@v/$version".* # it was no release
