package replay

import (
	"sync"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// Workspace is the storage of a replay: nothing in it outlives an estimate.
type Workspace struct {
	// Parameters are those of the model, and parts what of them one GPU holds.
	Parameters, Parts []step.Parameter
	// Tape is what a micro-step is recorded on, and evaluated what comes between two optimizer steps.
	Tape, Evaluated step.Tape
	// Session is the run that is played, on allocator.
	Session   play.Session
	Allocator *memory.Allocator
	// Stands are where a run without a limit stood, for runs under one.
	Stands []stand
	step   int // the optimizer step that is played
	kept   int // stands within steps
	tried  []tried
	total  int64 // requests of sessions before the present one
}

// Restart counts requests from here on.
func (w *Workspace) Restart() { w.total = 0 }

// Taken is how many requests were played since the last restart.
func (w *Workspace) Taken() int64 { return w.total + w.Session.Total }

// Forget drops the stands of an earlier run.
func (w *Workspace) Forget() { w.Stands, w.kept = w.Stands[:0], 0 }

// ForgetTries drops what came of runs under limits.
func (w *Workspace) ForgetTries() { w.tried = w.tried[:0] }

// Stood says whether a run without a limit has left stands.
func (w *Workspace) Stood() bool { return len(w.Stands) > 0 }

// stand is where a run without a limit stood, and in which optimizer step: before it or within.
type stand struct {
	session play.Saved
	heap    memory.Saved
	step    int
}

// workspaces are reused from one estimate to the next, so that an estimate hardly allocates.
var workspaces = sync.Pool{New: func() any { return NewWorkspace() }}

// keptBytes is up to how much storage a workspace is kept with: ten times what most jobs take. What a large one took
// goes to the garbage collector.
const keptBytes = 8 << 20

// NewWorkspace is an empty one.
func NewWorkspace() *Workspace { return &Workspace{Allocator: memory.NewAllocator(memory.Settings{})} }

// LentWorkspace is one that an earlier estimate has left, until it is put back.
func LentWorkspace() *Workspace { return workspaces.Get().(*Workspace) }

// PutBack leaves it to the next estimate, unless it has grown large.
func (w *Workspace) PutBack() {
	if w.StorageBytes() <= keptBytes {
		workspaces.Put(w)
	}
}

// StorageBytes is about how much storage w has.
func (w *Workspace) StorageBytes() int64 {
	const perParameter = 136
	bytes := int64(cap(w.Parameters)+cap(w.Parts))*perParameter + w.Tape.StorageBytes() + w.Evaluated.StorageBytes() +
		w.Session.StorageBytes() + w.Allocator.StorageBytes()
	for i := range w.Stands[:cap(w.Stands)] {
		bytes += w.Stands[:cap(w.Stands)][i].heap.StorageBytes() + w.Stands[:cap(w.Stands)][i].session.StorageBytes()
	}
	return bytes
}
