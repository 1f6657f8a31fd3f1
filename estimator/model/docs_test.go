package model

import (
	"os"
	"strings"
	"testing"
)

// TestDocsNameEveryFamily holds the list of families in the memory model against those that are described.
func TestDocsNameEveryFamily(t *testing.T) {
	page, err := os.ReadFile("../../docs/how-it-works.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Families() {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/how-it-works.md does not name %s", name)
		}
	}
}
