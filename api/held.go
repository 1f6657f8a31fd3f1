package api

import (
	"container/list"
	"io"
	"net/http"
	"sync"
	"time"
)

// held counts the bytes of documents and answers that are in memory for clients,
// who decide how long that is: one can send a body slowly, or not read its answer.
// The number of connections alone would be no bound on the memory. Where there are
// too many bytes, whoever has held many of them longest is cut off: documents of
// honest clients arrive and their answers leave within milliseconds, and most are small.
type held struct {
	mu    sync.Mutex
	bytes int64
	most  int64
	// large and small are the holders with bytes in memory, the longest first. The
	// large go first.
	large, small list.List
}

// largeBytes is more than nearly all jobs and answers have.
const largeBytes = 64 << 10

// holder is one request with bytes in memory.
type holder struct {
	held  *held
	bytes int64
	// cut ends the request's reads and writes.
	cut func()
	// gone holders have been cut off and count no more.
	gone  bool
	place *list.Element
	in    *list.List
}

// holdBody begins to count for a document. Its sender can still be told why it
// was cut off.
func (h *held) holdBody(w http.ResponseWriter) *holder {
	control := http.NewResponseController(w)
	return &holder{held: h, cut: func() { _ = control.SetReadDeadline(time.Now()) }}
}

// holdAnswer begins to count for an answer, or for a batch, which has both.
func (h *held) holdAnswer(w http.ResponseWriter) *holder {
	control := http.NewResponseController(w)
	return &holder{held: h, cut: func() {
		_ = control.SetReadDeadline(time.Now())
		_ = control.SetWriteDeadline(time.Now())
	}}
}

// now is how many bytes are held.
func (h *held) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// take books n bytes, if need be those of others. It is false where the request
// itself has to go.
func (o *holder) take(n int) bool {
	h := o.held
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.gone {
		return false
	}
	for h.bytes+int64(n) > h.most {
		first := h.large.Front()
		if first == nil || h.large.Len() == 1 && first == o.place {
			first = h.small.Front()
		}
		if first == nil || first == o.place {
			return false
		}
		longest := first.Value.(*holder)
		longest.remove()
		longest.gone = true
		longest.cut()
	}
	h.bytes += int64(n)
	o.bytes += int64(n)
	switch {
	case o.bytes >= largeBytes && o.in != &h.large:
		o.moveTo(&h.large)
	case o.place == nil:
		o.moveTo(&h.small)
	}
	return true
}

// moveTo makes the holder the last of a list.
func (o *holder) moveTo(l *list.List) {
	if o.place != nil {
		o.in.Remove(o.place)
	}
	o.in, o.place = l, l.PushBack(o)
}

// give gives n bytes back. A holder that does so goes on as if it had just come.
func (o *holder) give(n int) {
	o.held.mu.Lock()
	defer o.held.mu.Unlock()
	if o.gone || o.place == nil {
		return
	}
	o.bytes -= int64(n)
	o.held.bytes -= int64(n)
	o.in.MoveToBack(o.place)
}

// release gives back all that are left.
func (o *holder) release() {
	o.held.mu.Lock()
	defer o.held.mu.Unlock()
	o.remove()
}

// remove takes the holder off the books.
func (o *holder) remove() {
	if o.place == nil {
		return
	}
	o.in.Remove(o.place)
	o.held.bytes -= o.bytes
	o.place, o.in, o.bytes = nil, nil, 0
}

// heldBody books what is read through it as it arrives: what a client says that it
// will send takes no memory yet.
type heldBody struct {
	io.ReadCloser
	holder *holder
}

// Read implements io.Reader. It ends with errShed where the memory is taken.
func (r heldBody) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	if n > 0 && !r.holder.take(n) || err != nil && r.holder.cutOff() {
		return 0, errShed
	}
	return n, err
}

func (o *holder) cutOff() bool {
	o.held.mu.Lock()
	defer o.held.mu.Unlock()
	return o.gone
}
