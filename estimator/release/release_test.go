package release_test

import (
	"testing"

	"github.com/vramplan/vramplan/estimator/release"
)

// TestRowsAreWhole says that every row names what it is about, and that its releases are in order.
func TestRowsAreWhole(t *testing.T) {
	for _, c := range release.Changes() {
		if c.Library == "" || c.Switch == "" || c.What == "" || c.Source == "" || c.Shown == "" {
			t.Errorf("%+v leaves something out", c)
		}
		if c.From == "" && c.To == "" {
			t.Errorf("%s holds in every release", c.Switch)
		}
		var last release.Version
		for _, of := range []string{c.After, c.From, c.To} {
			if of == "" {
				continue
			}
			v, ok := release.Parse(of)
			if !ok || v.Before(last) {
				t.Errorf("%s: %q is no release, or comes before the one in front of it", c.Switch, of)
			}
			last = v
		}
	}
}

func TestIn(t *testing.T) {
	defaults := map[string]string{"torch": "2.9.1", "transformers": "4.57.6"}
	has := func(given map[string]string, s release.Switch) bool {
		id, known := release.Declared(s)
		set := release.In(given, defaults)
		return known && set.Has(id)
	}
	for name, c := range map[string]struct {
		given map[string]string
		s     release.Switch
		want  bool
	}{
		"the default has no later change":     {nil, "returns-workspace", false},
		"a later release has it":              {map[string]string{"torch": "2.15.0+cu132"}, "returns-workspace", true},
		"one after the last known one, too":   {map[string]string{"torch": "3.0"}, "returns-workspace", true},
		"a range ends":                        {map[string]string{"torch": "2.1.2"}, "two-temporaries", false},
		"and begins":                          {map[string]string{"torch": "2.0.1"}, "two-temporaries", true},
		"a release implies another library's": {map[string]string{"transformers": "4.16"}, "keeps-softmax-input", true},
		"unless that is named": {map[string]string{"transformers": "4.16", "torch": "1.12"},
			"keeps-softmax-input", false},
		"what cannot be read is the default": {map[string]string{"torch": "nightly"}, "returns-workspace", false},
		"what has no default is not in it":   {map[string]string{"torch": "2.9"}, "loads-all-kernels", false},
	} {
		if got := has(c.given, c.s); got != c.want {
			t.Errorf("%s: %s is %v in %v", name, c.s, got, c.given)
		}
	}
}

func TestUnsure(t *testing.T) {
	c := release.Change{After: "2.10", From: "2.15"}
	for version, want := range map[string]bool{"2.9": false, "2.10": false, "2.11": true, "2.14.1": true,
		"2.15": false} {
		if v, _ := release.Parse(version); c.Unsure(v) != want {
			t.Errorf("%s: unsure is %v, want %v", version, !want, want)
		}
	}
}

// TestThirdNumberDecides: a change that one release alone has is not in the next one of the same minor number.
func TestThirdNumberDecides(t *testing.T) {
	id, _ := release.Declared("copies-experts")
	for version, want := range map[string]bool{"5.9.0": false, "5.10": true, "5.10.0": true, "5.10.1": false, "5.23.0": false} {
		set := release.In(map[string]string{"transformers": version}, nil)
		if copies := set.Has(id); copies != want {
			t.Errorf("transformers %s copies the weights of experts: %v, want %v", version, copies, want)
		}
	}
}
