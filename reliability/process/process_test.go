package process_test

import (
	"strings"
	"testing"
	"time"

	"github.com/vramplan/vramplan/reliability/process"
)

// Reading lets pass what takes little, and names what takes too much of either.
func TestReading(t *testing.T) {
	if err := process.Reading(100, func() {}); err != nil {
		t.Error(err)
	}
	spins := func() {
		for began := process.Time(); process.Time()-began < 400*time.Millisecond; {
		}
	}
	if err := process.Reading(100, spins); err == nil || !strings.Contains(err.Error(), "reading 100 bytes took") {
		t.Errorf("0.4 s: %v", err)
	}
	var kept []byte
	if err := process.Reading(100, func() { kept = make([]byte, 64<<20) }); err == nil {
		t.Errorf("%d bytes were not noticed", len(kept))
	}
}
