// Package release is what releases of the training software changed, as data: one row a change, with the releases in
// which it holds, the switch of the replay that it sets, where it is written and which traces show it.
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
	first, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(version), "v"), ".")
	major, err := strconv.Atoi(leadingDigits(first))
	if err != nil {
		return Version{}, false
	}
	v := Version{Major: major}
	second, _, _ := strings.Cut(rest, ".")
	if minor, err := strconv.Atoi(leadingDigits(second)); err == nil {
		v.Minor = minor
	}
	return v, true
}

// point is a release with its third number, 0 where it has none.
type point struct {
	Version
	patch int
}

func (p point) before(o point) bool {
	return p.Version.Before(o.Version) || p.Version == o.Version && p.patch < o.patch
}

// pointOf is Parse with the third number.
func pointOf(version string) (point, bool) {
	v, ok := Parse(version)
	p := point{Version: v}
	if parts := strings.SplitN(version, ".", 4); len(parts) > 2 {
		if n, err := strconv.Atoi(leadingDigits(parts[2])); err == nil {
			p.patch = n
		}
	}
	return p, ok
}

func leadingDigits(s string) string {
	end := 0
	for end < len(s) && end < 6 && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	return s[:end]
}
