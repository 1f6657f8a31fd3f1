// Package meter holds what a request takes against the bound that is known from its documents alone.
package meter

import (
	"fmt"
	"sync"
	"time"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/reliability/process"
)

// What a request may take beyond its estimates' bounds.
const (
	// perRequest is the processor time that a request of the replayed allocator takes at most; it is 0.05 to 0.1 µs,
	// twice that on a core whose other half is busy.
	perRequest = 250 * time.Nanosecond
	// anyway is for everything else, the garbage collector included, and anywayBytes for its memory: reading documents
	// of up to a mebibyte, finding names that are near one that nothing has, writing the answer.
	anyway, anywayBytes = 500 * time.Millisecond, 48 << 20
	// perByte is how much memory is allocated for each byte of a document and of its answer.
	perByte = 64
	// grown is how much more is allocated than the storage has at the end, since lists double as they grow.
	grown = 3
)

// Meter measures one request at a time: processor time and allocations are those of the whole process.
type Meter struct {
	mu    sync.Mutex
	bound estimator.Cost

	began  time.Duration
	allocs uint64
	// MostTime and MostBytes are the most that any request took, and MostShare the most of its bound.
	MostTime  time.Duration
	MostBytes int64
	MostShare float64
}

// Tell adds what an estimate of the request takes at most, as the service says before it makes it.
func (m *Meter) Tell(c estimator.Cost) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bound.Requests += c.Requests
	m.bound.Bytes += c.Bytes
}

// Begin is called before a request.
func (m *Meter) Begin() {
	m.mu.Lock()
	m.bound = estimator.Cost{}
	m.mu.Unlock()
	m.began, m.allocs = process.Time(), process.Allocated()
}

// End says whether a request of so many bytes, and as many in its answer, took more than its bound. Of memory it counts
// everything that was allocated, whether or not it was there at once.
func (m *Meter) End(documentBytes, answerBytes int) error {
	took, bytes := process.Time()-m.began, int64(process.Allocated()-m.allocs)
	m.mu.Lock()
	bound := m.bound
	m.mu.Unlock()
	most := anyway + time.Duration(bound.Requests)*perRequest
	mostBytes := anywayBytes + grown*bound.Bytes + perByte*int64(documentBytes+answerBytes)
	m.MostTime, m.MostBytes = max(m.MostTime, took), max(m.MostBytes, bytes)
	m.MostShare = max(m.MostShare, float64(took)/float64(most), float64(bytes)/float64(mostBytes))
	if took > most || bytes > mostBytes {
		return fmt.Errorf("took %v and %d bytes; at most %v and %d are expected of %+v", took, bytes, most, mostBytes,
			bound)
	}
	return nil
}

func (m *Meter) String() string {
	return fmt.Sprintf("at most %v and %d MiB allocated for a request, %.0f %% of its bound",
		m.MostTime.Round(time.Millisecond), m.MostBytes>>20, 100*m.MostShare)
}
