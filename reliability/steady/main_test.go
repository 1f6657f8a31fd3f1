package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// module is a repository with random tests, without rapid itself.
var module = map[string]string{
	"go.mod": "module example.com/m\n\ngo 1.26\n",
	"rapid/rapid.go": `package rapid
import ("flag"; "testing")
var seed = flag.Uint64("rapid.seed", 0, "")
var checks = flag.Int("rapid.checks", 100, "")
var _ = flag.Bool("rapid.nofailfile", false, "")
func Check(t *testing.T, f func(t *testing.T, seed uint64)) {
	for i := range max(*checks / 100, 1) {
		s := *seed + uint64(i) * 0x9E3779B97F4A7C15
		if f(t, s); t.Failed() {
			t.Fatalf("[rapid] failed after %d tests: x\nTo reproduce, specify -run=%q -rapid.seed=%d", 100*i, t.Name(), s)
		}
	}
}`,
	"a/a_test.go": `package a
import ("testing"; "example.com/m/rapid")
func TestOld(t *testing.T) { rapid.Check(t, func(t *testing.T, seed uint64) { if seed > 1<<63 { t.Error("old", seed) } }) }
func TestSteady(t *testing.T) { rapid.Check(t, func(t *testing.T, seed uint64) { if seed == 0 { t.Error("not told") } }) }`,
}

// repository writes files and commits them.
func repository(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"},
		{"-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qm", "x"}} {
		if said, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, said)
		}
	}
}

// TestJudged: every failure is counted and fails the command; held against a revision, only what passes there does.
func TestJudged(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	root := t.TempDir()
	repository(t, root, module)
	var said strings.Builder
	err := run(t.Context(), root, []string{"-runs", "16", "-seed", "3"}, &said)
	if err == nil || !strings.Contains(err.Error(), "1 of 2 random tests failed") {
		t.Errorf("got %v\n%s", err, &said)
	}
	for _, part := range []string{"2 random tests, beginning at -seed 3", "go test ./a -run '^TestOld$' -rapid.seed=",
		"a        TestSteady  16    0 "} {
		if !strings.Contains(said.String(), part) {
			t.Errorf("it does not say %q:\n%s", part, &said)
		}
	}

	repository(t, root, map[string]string{"a/b_test.go": `package a
import ("testing"; "example.com/m/rapid")
func TestNew(t *testing.T) { rapid.Check(t, func(t *testing.T, seed uint64) { t.Error("new") }) }`})
	against := []string{"-runs", "16", "-seed", "3", "-base", "HEAD^"}
	said.Reset()
	err = run(t.Context(), root, against, &said)
	if err == nil || err.Error() != "TestNew failed, and does not at HEAD^" {
		t.Errorf("got %v\n%s", err, &said)
	}
	said.Reset()
	if err := run(t.Context(), root, append(against, "-test", "Old|Steady"), &said); err != nil ||
		!strings.Contains(said.String(), "TestOld fails at HEAD^ too") {
		t.Errorf("got %v\n%s", err, &said)
	}
}

// TestAsked: what cannot be done is said.
func TestAsked(t *testing.T) {
	root := t.TempDir()
	for args, want := range map[string]string{
		"-runs 0":                  "at least 1",
		"-beside 0":                "at least 1",
		"-keep page.md -base HEAD": "without -base",
		"-test (":                  "missing closing",
		"":                         "no random test matches",
	} {
		err := run(t.Context(), root, strings.Fields(args), new(strings.Builder))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

// TestGoesOn: a page says what was run; a call adds what is missing, and leaves alone what failed.
func TestGoesOn(t *testing.T) {
	root := t.TempDir()
	repository(t, root, module)
	read := func() map[string]tried {
		t.Helper()
		p, err := readPage(filepath.Join(root, "page.md"), true)
		if err != nil {
			t.Fatal(err)
		}
		of := map[string]tried{}
		for _, r := range p.rows {
			of[r.name] = r
		}
		return of
	}
	ask := func(args ...string) error {
		return run(t.Context(), root, append(args, "-seed", "3", "-keep", "page.md"), io.Discard)
	}
	if err := ask("-runs", "40", "-beside", "2"); err == nil {
		t.Error("no failure is told of")
	}
	first := read()
	if old := first["TestOld"]; old.failures != 1 || old.done < 1 || old.done > 40 {
		t.Errorf("what failed: %+v", old)
	}
	if s := first["TestSteady"]; s.done != 40 || s.failures != 0 || s.from == "" || s.to < s.from || s.folder != "a" {
		t.Errorf("what ran: %+v", s)
	}
	if err := ask("-runs", "60", "-test", "Steady"); err != nil {
		t.Error(err)
	}
	second := read()
	if got := second["TestSteady"]; got.done != 60 || got.failures != 0 {
		t.Errorf("it did not go on: %+v", got)
	}
	if diff := cmp.Diff(first["TestOld"], second["TestOld"], cmp.AllowUnexported(tried{})); diff != "" {
		t.Errorf("what was not asked for changed: %s", diff)
	}
}

// TestFailedAt: of runs that share a process those before the failure are counted, and its seed is taken from rapid.
func TestFailedAt(t *testing.T) {
	for said, want := range map[string][2]uint64{
		"[rapid] failed after 250 tests: x\nTo reproduce, specify -run=\"TestA\" -rapid.seed=77\n": {3, 77},
		"[rapid] panic after 1 tests: x\nTo reproduce, specify -run=\"TestA\" -rapid.seed=8\n":     {1, 8},
		"exit status 2": {5, 3},
	} {
		if runs, seed := failedAt([]byte(said), 5, 3); uint64(runs) != want[0] || seed != want[1] {
			t.Errorf("%q: %d runs, seed %d, want %v", said, runs, seed, want)
		}
	}
}
