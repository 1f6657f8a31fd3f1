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
