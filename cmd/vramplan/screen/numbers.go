package screen

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/estimator"
)

// Size is bytes for people.
func Size(bytes int64) string { return estimator.Bytes(bytes).String() }

// InGiB is a size in GiB for a column that names the unit, with two decimals: 10 MiB.
func InGiB(bytes int64) string {
	if bytes > 0 && bytes < 5<<20 {
		return "<0.01"
	}
	return fmt.Sprintf("%.2f", float64(bytes)/(1<<30))
}

// UnitOf is the unit of a column whose largest figure is given, and how sizes are written in it.
func UnitOf(largest int64) (string, func(int64) string) {
	if largest >= 1<<30 {
		return "GiB", InGiB
	}
	return "MiB", func(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }
}

// Thousands writes a count with commas: 124,373,760.
func Thousands(n int64) string {
	sign, digits := "", strconv.FormatInt(n, 10)
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var s strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			s.WriteByte(',')
		}
		s.WriteRune(d)
	}
	return sign + s.String()
}
