package api

import (
	"io"
	"sync"
)

// segmentBytes is more than nearly all jobs have.
const segmentBytes = 32 << 10

var segmentPool = sync.Pool{New: func() any { return new([segmentBytes]byte) }}

// segments are a document as it arrives. A buffer that doubles would have been copied five times by the end of a
// mebibyte, and leaves as much to the garbage collector three times over; senders who never come to an end made most of
// the service's work and of its memory that way. Segments are used again, and joined only once all of them are there.
type segments struct {
	full []*[segmentBytes]byte
	last *[segmentBytes]byte
	// n is how much of the last one is in use.
	n int
}

// from reads to the end.
func (s *segments) from(r io.Reader) error {
	for {
		if s.last == nil || s.n == segmentBytes {
			if s.last != nil {
				s.full = append(s.full, s.last)
			}
			s.last, s.n = segmentPool.Get().(*[segmentBytes]byte), 0
		}
		n, err := r.Read(s.last[s.n:])
		s.n += n
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// joined is all that was read, valid until release.
func (s *segments) joined() []byte {
	if len(s.full) == 0 {
		return s.last[:s.n]
	}
	all := make([]byte, 0, len(s.full)*segmentBytes+s.n)
	for _, f := range s.full {
		all = append(all, f[:]...)
		segmentPool.Put(f)
	}
	s.full = nil
	return append(all, s.last[:s.n]...)
}

// release gives the segments back.
func (s *segments) release() {
	for _, f := range s.full {
		segmentPool.Put(f)
	}
	if s.last != nil {
		segmentPool.Put(s.last)
	}
	s.full, s.last = nil, nil
}
