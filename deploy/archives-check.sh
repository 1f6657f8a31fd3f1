#!/bin/sh
# Looks into the archives in dist/: six, each with the program and its licences, and runs that of this machine.
set -eu
cd "$(dirname "$0")/../dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for system in linux_amd64.tar.gz linux_arm64.tar.gz darwin_amd64.tar.gz darwin_arm64.tar.gz windows_amd64.zip windows_arm64.zip; do
    archive=$(echo vramplan_*_"$system")
    case $archive in
    *.zip) python3 -m zipfile -l "$archive" | awk 'NR > 1 { print $1 }' >"$work/list" ;;
    *) tar tzf "$archive" >"$work/list" ;;
    esac
    for file in 'vramplan(\.exe)?' LICENSE licenses/go/LICENSE; do
        grep -qxE "$file" "$work/list" || { echo "$archive has no $file" >&2; exit 1; }
    done
done
tar xzf vramplan_*_"$(${GO:-go} env GOOS)_$(${GO:-go} env GOARCH)".tar.gz -C "$work"
said=$("$work/vramplan" version)
version=$(git describe --always --dirty)
case $said in *"$version"*) echo "$said" ;; *) echo "the program says '$said', not $version" >&2; exit 1 ;; esac
"$work/vramplan" estimate --model gpt2 --micro-batch 1 --gpu rtx-4090 >/dev/null
