package check

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestImageKnowsAuthorities: an image of nothing but a program has no certificate authorities unless it is given them,
// and then --hub-models would refuse every answer of the Hub. The file is the first that Go looks for on Linux
// (crypto/x509/root_linux.go).
func TestImageKnowsAuthorities(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	const bundle = "/etc/ssl/certs/ca-certificates.crt"
	stages := strings.Split(string(text), "\nFROM ")
	last := stages[len(stages)-1]
	if !strings.HasPrefix(last, "scratch\n") {
		t.Fatalf("the last stage is of %.20q: where does this image have its authorities from?", last)
	}
	if !slices.ContainsFunc(strings.Split(last, "\n"), func(line string) bool {
		f := strings.Fields(line)
		return len(f) == 4 && f[0] == "COPY" && f[1] == "--from=build" && f[3] == bundle && f[2] == bundle
	}) {
		t.Errorf("the last stage has no %s", bundle)
	}
}
