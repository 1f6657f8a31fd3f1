package estimator

import (
	"sync"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// workspace is the storage of a replay: nothing in it outlives an estimate.
type workspace struct {
	parameters []step.Parameter
	parts      []step.Parameter // of parameters, what one GPU holds
	tape       step.Tape
	evaluated  step.Tape
	session    play.Session
	allocator  *memory.Allocator
	stands     []stand
	step       int // the optimizer step that is played
	kept       int // stands within steps
	tried      []tried
	total      int64 // requests of sessions before the present one
}

// stand is where a run without a limit stood, and in which optimizer step: before it or within.
type stand struct {
	session play.Saved
	heap    memory.Saved
	step    int
}

// workspaces are reused from one estimate to the next, so that an estimate hardly allocates.
var workspaces = sync.Pool{New: func() any { return &workspace{allocator: memory.NewAllocator(false)} }}

// keptBytes is up to how much storage a workspace is kept with: ten times what most jobs take. What a large one took
// goes to the garbage collector.
const keptBytes = 8 << 20

// workspace is the storage for a replay: that of the answer before, or an empty one where it is asked what an answer
// takes.
func (r *question) workspace() *workspace {
	switch {
	case r.storage != nil:
		return r.storage
	case r.took != nil:
		return &workspace{allocator: memory.NewAllocator(false)}
	}
	return workspaces.Get().(*workspace)
}

func (w *workspace) putBack() {
	if w.bytes() <= keptBytes {
		workspaces.Put(w)
	}
}

// bytes is about how much storage w has.
func (w *workspace) bytes() int64 {
	const perParameter = 136
	bytes := int64(cap(w.parameters)+cap(w.parts))*perParameter + w.tape.StorageBytes() + w.evaluated.StorageBytes() +
		w.session.StorageBytes() + w.allocator.StorageBytes()
	for i := range w.stands[:cap(w.stands)] {
		bytes += w.stands[:cap(w.stands)][i].heap.StorageBytes() + w.stands[:cap(w.stands)][i].session.StorageBytes()
	}
	return bytes
}
