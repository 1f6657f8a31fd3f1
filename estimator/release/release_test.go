package release

import "testing"

// TestRowsAreWhole says that every row names what it is about, and that its releases are in order.
func TestRowsAreWhole(t *testing.T) {
	for _, c := range Changes() {
		if c.Library == "" || c.Switch == "" || c.What == "" || c.Source == "" || c.Shown == "" {
			t.Errorf("%+v leaves something out", c)
		}
		if c.From == "" && c.To == "" {
			t.Errorf("%s holds in every release", c.Switch)
		}
		var last Version
		for _, of := range []string{c.After, c.From, c.To} {
			if of == "" {
				continue
			}
			v, ok := Parse(of)
			if !ok || v.Before(last) {
				t.Errorf("%s: %q is no release, or comes before the one in front of it", c.Switch, of)
			}
			last = v
		}
	}
}

func TestIn(t *testing.T) {
	defaults := map[string]string{"torch": "2.9.1", "transformers": "4.57.6"}
	has := func(given map[string]string, s Switch) bool {
		for _, c := range In(given, defaults) {
			if c.Switch == s {
				return true
			}
		}
		return false
	}
	for name, c := range map[string]struct {
		given map[string]string
		s     Switch
		want  bool
	}{
		"the default has no later change":     {nil, ReturnsWorkspace, false},
		"a later release has it":              {map[string]string{"torch": "2.15.0+cu132"}, ReturnsWorkspace, true},
		"one after the last known one, too":   {map[string]string{"torch": "3.0"}, ReturnsWorkspace, true},
		"a range ends":                        {map[string]string{"torch": "2.1.2"}, TwoTemporaries, false},
		"and begins":                          {map[string]string{"torch": "2.0.1"}, TwoTemporaries, true},
		"a release implies another library's": {map[string]string{"transformers": "4.16"}, KeepsSoftmaxInput, true},
		"unless that is named": {map[string]string{"transformers": "4.16", "torch": "1.12"},
			KeepsSoftmaxInput, false},
		"what cannot be read is the default": {map[string]string{"torch": "nightly"}, ReturnsWorkspace, false},
		"what has no default is not in it":   {map[string]string{"torch": "2.9"}, LoadsAllKernels, false},
	} {
		if got := has(c.given, c.s); got != c.want {
			t.Errorf("%s: %s is %v in %v", name, c.s, got, c.given)
		}
	}
}

func TestUnsure(t *testing.T) {
	c := Change{After: "2.10", From: "2.15"}
	for version, want := range map[string]bool{"2.9": false, "2.10": false, "2.11": true, "2.14.1": true,
		"2.15": false} {
		if v, _ := Parse(version); c.Unsure(v) != want {
			t.Errorf("%s: unsure is %v, want %v", version, !want, want)
		}
	}
}
