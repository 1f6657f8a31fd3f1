package main

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
)

// Every flag that a trainer's word leads to is one that estimate, check and plan have.
func TestTrainersFlagsLeadToFlags(t *testing.T) {
	for _, command := range []string{"estimate", "check", "plan"} {
		var out bytes.Buffer
		if code := run(t.Context(), []string{command, "--help"}, strings.NewReader(""), &out, &out, nil); code != exitOK {
			t.Fatalf("%s --help: %d", command, code)
		}
		has := regexp.MustCompile(`--(?:\[no-\])?[a-z0-9-]+`).FindAllString(out.String(), -1)
		for i, flag := range has {
			has[i] = strings.Replace(flag, "[no-]", "", 1)
		}
		for _, name := range slices.Sorted(maps.Keys(trainersFlags)) {
			words := trainersFlags[name]
			flag, _, _ := strings.Cut(words, " ")
			if words != "" && !slices.Contains(has, flag) {
				t.Errorf("--%s leads to %s, which %s does not have", name, flag, command)
			}
			if slices.Contains(has, "--"+name) {
				t.Errorf("--%s is a flag of %s itself", name, command)
			}
		}
	}
}

// Where 80 columns have no room for a long id, it stands whole on a line of its own.
func TestLongIDsStandWhole(t *testing.T) {
	g := screen.NewGrid("left", "right")
	g.Long = 6
	g.Add("id", "n")
	g.Add("short", "1")
	g.Add("an/id-that-is-long", "22")
	var out bytes.Buffer
	g.Write(&out)
	if want := "id      n\nshort   1\nan/id-that-is-long\n       22\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
