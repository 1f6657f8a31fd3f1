package find_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/reliability/steady/find"
)

// TestPackages: a test is random that calls rapid or a helper that does; what lies in another module or among test data
// is nobody's test.
func TestPackages(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/a_test.go": `package a
import ("testing"; "pgregory.net/rapid")
func TestDirect(t *testing.T) { rapid.Check(t, nil) }
func TestMade(t *testing.T) { t.Run("x", rapid.MakeCheck(nil)) }
func TestOther(t *testing.T) { other(t) }
func other(t *testing.T) { t.Log("rapid.Check") }
func BenchmarkHelped(b *testing.B) { deep(b) }`,
		"a/b_test.go": `package a_test
import "testing"
func TestHelped(t *testing.T) { deep(t) }
func deep(t testing.TB) { deeper(t) }
func deeper(t testing.TB) { func() { rapid.Check(t, nil) }() }`,
		"a/testdata/c_test.go": `package c`,
		"module/go.mod":        `module other`,
		"module/d_test.go":     `package d`,
		"plain/e_test.go":      `package e; func TestPlain(t *testing.T) {}`,
		"untested/f.go":        `package f`,
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := find.Packages(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []find.Package{
		{Folder: "a", Random: []string{"TestDirect", "TestHelped", "TestMade"},
			Imports: map[string]bool{"testing": true, "pgregory.net/rapid": true}},
		{Folder: "plain", Imports: map[string]bool{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
