package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The committed document is what the annotations, the Go types and the recorded
// examples give; "make generate" makes it so.
func TestDocumentIsGenerated(t *testing.T) {
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "openapi", "openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		from := max(0, at-200)
		t.Errorf("openapi.json is not up to date, run \"make generate\"; it differs at byte %d:\ncommitted "+
			"%s\ngenerated %s",
			at, got[from:min(len(got), at+200)], want[from:min(len(want), at+200)])
	}
}
