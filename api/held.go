package api

import (
	"io"
	"sync/atomic"
)

// held counts the bytes of documents and answers that are in memory for clients,
// who decide how long that is: one can send a body slowly, or not read its answer.
// The number of connections alone would be no bound on the memory.
type held struct {
	bytes atomic.Int64
	most  int64
}

// take books n bytes, unless they would be too many.
func (h *held) take(n int) bool {
	if h.bytes.Add(int64(n)) > h.most {
		h.bytes.Add(int64(-n))
		return false
	}
	return true
}

func (h *held) give(n int) { h.bytes.Add(int64(-n)) }

// heldReader books what is read through it as it arrives: what a client says that
// it will send takes no memory yet.
type heldReader struct {
	from  io.Reader
	held  *held
	taken atomic.Int64
}

// Read implements io.Reader. It ends with errShed where the memory is taken.
func (r *heldReader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	if n > 0 {
		if !r.take(n) {
			return 0, errShed
		}
	}
	return n, err
}

func (r *heldReader) take(n int) bool {
	if !r.held.take(n) {
		return false
	}
	r.taken.Add(int64(n))
	return true
}

// give gives n of the bytes back.
func (r *heldReader) give(n int) {
	r.taken.Add(int64(-n))
	r.held.give(n)
}

// release gives back all that are left.
func (r *heldReader) release() { r.held.give(int(r.taken.Swap(0))) }

// Close implements io.Closer; the body is net/http's to close.
func (r *heldReader) Close() error { return nil }
