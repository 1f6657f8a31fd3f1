package main

import (
	"strconv"
	"strings"
)

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// Bytes prints a size for people. Sizes are binary with one decimal, never
// rounded to a whole GiB: the difference between 11.7 and 12.0 GiB decides
// whether a job fits on a card that is sold as 12 GB.
type Bytes int64

// String is the size in the largest unit that leaves at least one whole.
func (b Bytes) String() string {
	size := magnitude(b)
	switch {
	case size >= gib:
		return decimal(b, gib) + " GiB"
	case size >= mib:
		return decimal(b, mib) + " MiB"
	case size >= kib:
		return decimal(b, kib) + " KiB"
	default:
		return strconv.FormatInt(int64(b), 10) + " B"
	}
}

// Exact adds the MiB that nvidia-smi shows to sizes in GiB, where one decimal
// is 102 MiB and hides which side of a limit a size is on.
func (b Bytes) Exact() string {
	if magnitude(b) < gib {
		return b.String()
	}
	return b.String() + " (" + decimal(b, mib) + " MiB)"
}

// magnitude is |b| as uint64, in which the smallest int64 has one too.
func magnitude(b Bytes) uint64 {
	if b < 0 {
		return -uint64(b)
	}
	return uint64(b)
}

func decimal(b Bytes, unit float64) string {
	return strconv.FormatFloat(float64(b)/unit, 'f', 1, 64)
}

// thousands writes a count with commas: 124,373,760.
func thousands(n int64) string {
	digits := strconv.FormatUint(magnitude(Bytes(n)), 10)
	var s strings.Builder
	if n < 0 {
		s.WriteByte('-')
	}
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			s.WriteByte(',')
		}
		s.WriteRune(d)
	}
	return s.String()
}
