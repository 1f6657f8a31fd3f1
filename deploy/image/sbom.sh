#!/bin/sh
# Writes what a built program consists of, as CycloneDX in JSON: deploy/image/sbom.sh PROGRAM FILE, in the repository's root. It is read off the
# program itself, so that it names the modules that are linked into it and no others.
set -eu
go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0 bin -json -noserial -output "$2" "$1"
