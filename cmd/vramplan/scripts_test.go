package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/readers/scripttest"
)

// judged is what the commands say of a script on a card.
type judged struct {
	code    int // of check
	said    string
	verdict estimator.Verdict // of estimate; "" where it has none
}

// judgeScript asks check and estimate, as users do.
func judgeScript(t *rapid.T, dir string, s scripttest.Script, card string) judged {
	for name, text := range s.Files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(dir, "job.sh")
	if err := os.WriteFile(script, []byte(s.Text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	j := judged{code: run(context.Background(), []string{"check", "--script", script, "--chdir", dir, "--gpu", card,
		"--advice-timeout", "1ns"}, strings.NewReader(""), &out, &errs, nil)}
	j.said = out.String() + errs.String()
	out.Reset()
	code := run(context.Background(), []string{"estimate", "--from", script, "--at", dir, "--gpu", card, "-o", "json"},
		strings.NewReader(""), &out, &errs, nil)
	var result estimator.Result
	if code == exitOK && json.Unmarshal(out.Bytes(), &result) == nil && len(result.GPUs) == 1 {
		j.verdict = result.GPUs[0].Verdict
	}
	return j
}

// A script whose words are all fixed is denied or passed, as estimate judges it, and words that move no memory change
// nothing of that.
func TestKnownScripts(t *testing.T) {
	dir := t.TempDir()
	ends := map[int]int{}
	rapid.Check(t, func(t *rapid.T) {
		job := scripttest.DrawJob(t)
		card := rapid.SampledFrom(scripttest.Cards).Draw(t, "card")
		known := job.Known(t)
		got := judgeScript(t, dir, known, card)
		denied := got.verdict == estimator.DoesNotFit
		if got.verdict == "" || denied != (got.code == exitFailure) || !denied && got.code != exitOK {
			t.Fatalf("check ends with %d, estimate says %q\n%s\n%s", got.code, got.verdict, known.Text, got.said)
		}
		harmless := job.Harmless(t)
		if same := judgeScript(t, dir, harmless, card); same.code != got.code || same.verdict != got.verdict {
			t.Fatalf("with harmless words check ends with %d and not %d, estimate says %q and not %q\n%s\n%s", same.code,
				got.code, same.verdict, got.verdict, harmless.Text, same.said)
		}
		ends[got.code]++
	})
	tried(t, ends, exitOK, exitFailure)
}

// tried fails where a way to end was never seen: the test has then shown nothing of it.
func tried(t *testing.T, ends map[int]int, codes ...int) {
	t.Helper()
	t.Logf("scripts by exit code: %v", ends)
	for _, code := range codes {
		if ends[code] == 0 && !t.Failed() {
			t.Errorf("no script ended with %d", code)
		}
	}
}

// A script of which the environment decides a part is denied only if everything that it may come to is, and passed only
// if nothing that it may come to is denied. Where it may come to so much and no more, it is denied if all of that is.
func TestOpenScripts(t *testing.T) {
	dir := t.TempDir()
	ends := map[int]int{}
	rapid.Check(t, func(t *rapid.T) {
		open := scripttest.DrawJob(t).Open(t)
		card := rapid.SampledFrom(scripttest.Cards).Draw(t, "card")
		got := judgeScript(t, dir, open.Script, card)
		var codes []int
		for _, one := range open.Either {
			codes = append(codes, judgeScript(t, dir, one, card).code)
		}
		denied, passed := slices.Contains(codes, exitFailure), slices.Contains(codes, exitOK)
		switch {
		case got.code != exitOK && got.code != exitFailure && got.code != exitUndecided,
			got.code == exitFailure && passed, got.code == exitOK && denied,
			!open.Bounded && got.code == exitFailure:
			t.Fatalf("%s: check ends with %d, what it may come to with %v\n%s\n%s", open.Name, got.code, codes, open.Text,
				got.said)
		case open.Bounded && denied != passed && !slices.Contains(codes, exitUndecided) && got.code != codes[0]:
			t.Fatalf("%s: check ends with %d, everything that it may come to with %d\n%s\n%s", open.Name, got.code, codes[0],
				open.Text, got.said)
		case got.code == exitFailure && got.verdict != estimator.DoesNotFit,
			got.code == exitOK && got.verdict == estimator.DoesNotFit:
			t.Fatalf("%s: check ends with %d, estimate says %q\n%s\n%s", open.Name, got.code, got.verdict, open.Text, got.said)
		}
		ends[got.code]++
	})
	tried(t, ends, exitOK, exitFailure, exitUndecided)
}
