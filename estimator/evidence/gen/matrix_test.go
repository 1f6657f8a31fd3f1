package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGenerated holds the files against the traces.
func TestGenerated(t *testing.T) {
	const root = "../../.."
	m, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range m.files() {
		have, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(have), want); diff != "" {
			t.Errorf("%s is not what the traces show; run go generate ./estimator/evidence (-published +made):\n%.2000s", path, diff)
		}
	}
}
