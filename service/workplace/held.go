package workplace

import (
	"container/list"
	"io"
	"sync"
)

// heldBytes are those of documents and answers in memory for clients, who decide how long that is: one can send a body
// slowly, or not read its answer. The number of connections alone would be no bound on the memory. Where there are too
// many bytes, whoever has held many of them longest is cut off: documents of honest clients arrive and their answers
// leave within milliseconds, and most are small.
type heldBytes struct {
	mu          sync.Mutex // of its own: bytes come a piece at a time, and who is cut off is so while it is held
	bytes, most int64
	// large and small are the holders with bytes in memory, the longest first. The large go first.
	large, small list.List
}

// largeBytes is more than nearly all jobs and answers have.
const largeBytes = 64 << 10

// Holder is one request with bytes in memory.
type Holder struct {
	place *Place
	bytes int64
	cut   func()
	// gone holders have been cut off and count no more.
	gone bool
	at   *list.Element
	in   *list.List
}

// Hold begins to count what a request has in memory; cut ends its reads and writes.
func (p *Place) Hold(cut func()) *Holder { return &Holder{place: p, cut: cut} }

// Take books n bytes, if need be those of others. It is false where the request itself has to go.
func (o *Holder) Take(n int) bool {
	o.place.held.mu.Lock()
	defer o.place.held.mu.Unlock()
	h := &o.place.held
	if o.gone {
		return false
	}
	for h.bytes > h.most-int64(n) {
		first := h.large.Front()
		if first == nil || h.large.Len() == 1 && first == o.at {
			first = h.small.Front()
		}
		if first == nil || first == o.at {
			return false
		}
		longest := first.Value.(*Holder)
		longest.remove()
		longest.gone = true
		longest.cut()
	}
	h.bytes += int64(n)
	o.bytes += int64(n)
	switch {
	case o.bytes >= largeBytes && o.in != &h.large:
		o.moveTo(&h.large)
	case o.at == nil:
		o.moveTo(&h.small)
	}
	return true
}

// moveTo makes the holder the last of a list.
func (o *Holder) moveTo(l *list.List) {
	if o.at != nil {
		o.in.Remove(o.at)
	}
	o.in, o.at = l, l.PushBack(o)
}

// Give gives n bytes back. A holder that does so goes on as if it had just come.
func (o *Holder) Give(n int) {
	o.place.held.mu.Lock()
	defer o.place.held.mu.Unlock()
	if o.gone || o.at == nil {
		return
	}
	o.bytes -= int64(n)
	o.place.held.bytes -= int64(n)
	o.in.MoveToBack(o.at)
}

// Release gives back all that are left.
func (o *Holder) Release() {
	o.place.held.mu.Lock()
	defer o.place.held.mu.Unlock()
	o.remove()
}

// remove takes the holder off the books.
func (o *Holder) remove() {
	if o.at == nil {
		return
	}
	o.in.Remove(o.at)
	o.place.held.bytes -= o.bytes
	o.at, o.in, o.bytes = nil, nil, 0
}

// Reader books what is read through it as it arrives: what a client says that it will send takes no memory yet.
func (o *Holder) Reader(r io.ReadCloser) io.ReadCloser { return heldReader{r, o} }

type heldReader struct {
	io.ReadCloser
	holder *Holder
}

// Read implements io.Reader. It ends with ErrFullOfBytes where the memory is taken.
func (r heldReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	if n > 0 && !r.holder.Take(n) || err != nil && r.holder.cutOff() {
		return 0, ErrFullOfBytes
	}
	return n, err
}

func (o *Holder) cutOff() bool {
	o.place.held.mu.Lock()
	defer o.place.held.mu.Unlock()
	return o.gone
}
