package main

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/vramplan/vramplan/estimator"
)

// size is bytes for people.
func size(bytes int64) string { return estimator.Bytes(bytes).String() }

// inGiB is a size in GiB for a column that names the unit, with two decimals: 10 MiB.
func inGiB(bytes int64) string {
	if bytes > 0 && bytes < 5<<20 {
		return "<0.01"
	}
	return fmt.Sprintf("%.2f", float64(bytes)/(1<<30))
}

// unitOf is the unit of a column whose largest figure is given, and how sizes are written in it.
func unitOf(largest int64) (string, func(int64) string) {
	if largest >= 1<<30 {
		return "GiB", inGiB
	}
	return "MiB", func(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }
}

// wholeNumber reads the value of a flag that is a count, and says in words what is wrong with another.
func wholeNumber(bits int) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		var given string
		if err := ctx.Scan.PopValueInto("a whole number", &given); err != nil {
			return err
		}
		n, err := strconv.ParseInt(given, 0, bits)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return fmt.Errorf("%s is out of range: whole numbers go to %d", given, int64(math.MaxInt64)>>(64-bits))
		case err != nil:
			return fmt.Errorf("%q is not a whole number", given)
		}
		target.SetInt(n)
		return nil
	}
}

// thousands writes a count with commas: 124,373,760.
func thousands(n int64) string {
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
