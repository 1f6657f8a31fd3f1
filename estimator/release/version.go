// Package release is what releases of the training software changed, as data: one row a change, with the releases in which it holds,
// the switch of the replay that it sets, where it is written and which traces show it.
package release

import (
	"strconv"
	"strings"
)

// Version is a release's major and minor number.
type Version struct{ Major, Minor int }

// Before says that v came out before major.minor.
func (v Version) Before(o Version) bool {
	return v.Major < o.Major || v.Major == o.Major && v.Minor < o.Minor
}

// Parse reads the start of a version such as "4.48.1", "2.9.1+cu128" or "11".
func Parse(version string) (Version, bool) {
	if version == "" {
		return Version{}, false
	}
	parts := strings.SplitN(strings.TrimPrefix(strings.TrimSpace(version), "v"), ".", 3)
	major, err := strconv.Atoi(leadingDigits(parts[0]))
	if err != nil {
		return Version{}, false
	}
	v := Version{Major: major}
	if len(parts) > 1 {
		if minor, err := strconv.Atoi(leadingDigits(parts[1])); err == nil {
			v.Minor = minor
		}
	}
	return v, true
}

func leadingDigits(s string) string {
	end := 0
	for end < len(s) && end < 6 && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	return s[:end]
}
