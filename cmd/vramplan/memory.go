package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/dustin/go-humanize"

	"github.com/vramplan/vramplan/estimator"
)

// byteCount is a size as people write it: 512MiB, 512Mi, 1GB or plain bytes.
type byteCount int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *byteCount) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > 1<<50 {
		return fmt.Errorf("%q: give a size such as 512MiB, 1.5GiB, 2GB or 1048576, which is bytes", text)
	}
	if number := strings.TrimSpace(string(text)); strings.Trim(number, "0123456789.,Bb ") == "" &&
		strings.Contains(number, ".") {
		number = strings.TrimRight(number, "Bb ")
		return fmt.Errorf("%q has no unit, and there are no parts of a byte: give a size such as %sGiB, %sGB or %sMiB, "+
			"or a whole number of bytes", text, number, number, number)
	}
	*b = byteCount(n)
	return nil
}

func (b byteCount) String() string { return humanize.IBytes(uint64(max(b, 0))) }

// memory is what the process may use; 0 is no limit that anybody told it of.
type memory struct {
	limit, held, replay int64
	// reading is what each of so many processes may use that read strangers' files.
	reading int64
	readers int
}

// maxReading is what a process that reads files may allocate. Of that, the runtime maps 64 MiB at a time: with 96 MiB a
// process does not begin, and the largest reading of real files takes some 40 MiB with the
// program and the catalog.
const maxReading = 256 << 20

// maxHeldByDefault is enough for 128 of the largest documents at once.
const maxHeldByDefault = 128 << 20

// maxReplayByDefault is enough for the dearest mixtures.
const maxReplayByDefault = 768 << 20

// memory finds what the process may use: what it was told, or what its container
// may have.
func (f *limitFlags) memory() memory {
	m := memory{limit: int64(f.MemoryLimit), held: int64(f.MaxHeld), replay: int64(f.MaxReplay)}
	if m.limit == 0 {
		if n, err := memlimit.FromCgroup(); err == nil && n < 1<<50 { // no container, no limit
			m.limit = int64(n)
		}
	}
	if m.held == 0 {
		m.held = maxHeldByDefault
		if m.limit > 0 {
			m.held = min(m.held, m.limit/8)
		}
	}
	if m.replay == 0 {
		m.replay = maxReplayByDefault
		if m.limit > 0 {
			m.replay = m.limit / 8 * 3
		}
	}
	m.reading, m.readers = maxReading, readersOf(m.limit)
	return m
}

// warnOfCost says once that an answer may take more than a service has for one by default: by the bound that is a limit
// there, and only a warning here.
func warnOfCost(w io.Writer) func(estimator.Cost) {
	var once sync.Once
	return func(c estimator.Cost) {
		if c.Bytes > maxReplayByDefault/4*3 {
			once.Do(func() {
				fmt.Fprintf(w, "vramplan: warning: an answer takes up to %s of memory, for which a service would "+
					"refuse it; fewer layers or experts need less\n",
					humanize.IBytes(uint64(c.Bytes)))
			})
		}
	}
}

// heed makes the garbage collector work harder before the limit is reached; a tenth
// is for what it does not count. An operator's GOMEMLIMIT is the runtime's business.
func (m memory) heed(gomemlimit string) {
	if m.limit > 0 && gomemlimit == "" {
		// A quarter is for processes that read files; where they take more, the kernel ends them first.
		debug.SetMemoryLimit(m.limit / 10 * 9 / 4 * 3)
	}
}
