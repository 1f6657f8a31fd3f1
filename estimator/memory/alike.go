package memory

import "math"

// alike are the limits under which a run does the same as it did so far: from least on, and below end. Of its limit a
// run sees nothing but whether what it is about to reserve lies within.
type alike struct{ least, end int64 }

// anyLimit is what a run is alike under that has asked for nothing yet.
var anyLimit = alike{0, math.MaxInt64}

// asked notes that it was asked whether so many bytes in all lie within the limit, and what the answer was.
func (l *alike) asked(bytes int64, within bool) {
	if within {
		l.least = max(l.least, bytes)
	} else {
		l.end = min(l.end, bytes)
	}
}

// Alike are the limits under which the run so far would have done the same, to the byte: from least on, and below end.
func (a *Allocator) Alike() (least, end int64) { return a.alike.least, a.alike.end }
