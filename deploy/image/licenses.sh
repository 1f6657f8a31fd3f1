#!/bin/sh
# Copies the licences and notices of everything that is linked into the binary to a folder, a folder for each module, and fails where a
# module has none: deploy/image/licenses.sh FOLDER, in the repository's root.
set -eu
out=$1
mkdir -p "$out/go"
cp "$(go env GOROOT)/LICENSE" "$out/go/"
list=$(go list -deps -f '{{with .Module}}{{.Path}} {{.Dir}}{{end}}' ./cmd/vramplan | sort -u)
echo "$list" | while read -r path dir; do
    mkdir -p "$out/$path"
    find "$dir" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) -exec cp {} "$out/$path/" \;
    if [ -z "$(ls -A "$out/$path")" ]; then
        echo "licenses.sh: $path has no licence" >&2
        exit 1
    fi
done
chmod -R a+rX,u+w "$out"
