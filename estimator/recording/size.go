package recording

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of elements as a sum of products of the batch (B) and the length of its sequences (T).
type Size []term

// term is a product; what draws of random numbers choose has a divisor, as it is a share of what it is chosen from.
type term struct {
	coefficient, divisor int64
	batch, time          uint8
}

const (
	maxTerms       = 16
	maxPower       = 4
	maxCoefficient = 1 << 40
	maxDivisor     = 1 << 20
)

// Elements is the size for a batch of b samples of length t, at least 0. It has to be held against [Size.About] before
// it is used.
func (s Size) Elements(b, t int64) int64 {
	n := int64(0)
	for _, x := range s {
		product := int64(1)
		for range x.batch {
			product *= b
		}
		for range x.time {
			product *= t
		}
		if x.divisor == 1 {
			n += x.coefficient * product
			continue
		}
		n += x.coefficient*(product/x.divisor) + (x.coefficient*(product%x.divisor)+x.divisor/2)/x.divisor
	}
	return max(n, 0)
}

// About is the size in floating point, where nothing wraps around: an upper bound.
func (s Size) About(b, t float64) float64 {
	n := 0.0
	for _, x := range s {
		n += math.Abs(float64(x.coefficient)) / float64(x.divisor) *
			math.Pow(b, float64(x.batch)) * math.Pow(t, float64(x.time))
		if x.divisor > 1 { // rounded
			n++
		}
	}
	return n
}

// parseSize reads a size such as 768BT+768B-12 or 576/5BT.
func parseSize(text string) (Size, error) {
	var s Size
	for rest := text; rest != ""; {
		var x term
		sign := int64(1)
		switch {
		case rest[0] == '-':
			sign, rest = -1, rest[1:]
		case rest[0] == '+' && len(s) > 0:
			rest = rest[1:]
		case len(s) > 0:
			return nil, fmt.Errorf("%.40q is no size", text)
		}
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits == 0 || digits > 13 {
			return nil, fmt.Errorf("%.40q is no size: a whole number stands before B and T", text)
		}
		for _, c := range rest[:digits] {
			x.coefficient = 10*x.coefficient + int64(c-'0')
		}
		if x.coefficient > maxCoefficient {
			return nil, fmt.Errorf("%.40q is too large", text)
		}
		x.coefficient *= sign
		rest, x.divisor = rest[digits:], 1
		if strings.HasPrefix(rest, "/") {
			below := rest[1:]
			digits := len(below) - len(strings.TrimLeft(below, "0123456789"))
			n, err := strconv.ParseInt(below[:digits], 10, 64)
			if err != nil || n < 1 || n > maxDivisor {
				return nil, fmt.Errorf("%.40q is no size: a divisor is from 1 to %d", text, maxDivisor)
			}
			rest, x.divisor = below[digits:], n
		}
		for rest != "" && (rest[0] == 'B' || rest[0] == 'T') {
			if rest[0] == 'B' {
				x.batch++
			} else {
				x.time++
			}
			rest = rest[1:]
			if x.batch > maxPower || x.time > maxPower {
				return nil, fmt.Errorf("%.40q has more than %d of a letter in a product", text, maxPower)
			}
		}
		if s = append(s, x); len(s) > maxTerms {
			return nil, fmt.Errorf("%.40q has more than %d terms", text, maxTerms)
		}
	}
	if len(s) == 0 {
		return nil, fmt.Errorf("a size is missing")
	}
	return s, nil
}
