package release

import "testing"

func TestParse(t *testing.T) {
	for version, want := range map[string]Version{"4.48.1": {4, 48}, "v2.9.1+cu128": {2, 9}, "11": {11, 0},
		" 2.1rc1 ": {2, 1}, "99999999999.1": {999999, 1}} {
		if got, ok := Parse(version); !ok || got != want {
			t.Errorf("%q: %v %v, want %v", version, got, ok, want)
		}
	}
	for _, version := range []string{"", "nightly", "-1.2", "."} {
		if got, ok := Parse(version); ok {
			t.Errorf("%q was read as %v", version, got)
		}
	}
}

// TestThirdNumberDecides: a change that one release alone has is not in the next one of the same minor number.
func TestThirdNumberDecides(t *testing.T) {
	for version, want := range map[string]bool{"5.9.0": false, "5.10": true, "5.10.0": true, "5.10.1": false, "5.23.0": false} {
		copies := false
		for _, c := range In(map[string]string{"transformers": version}, nil) {
			copies = copies || c.Switch == CopiesExperts
		}
		if copies != want {
			t.Errorf("transformers %s copies the weights of experts: %v, want %v", version, copies, want)
		}
	}
}
