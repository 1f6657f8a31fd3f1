package alloc

import "github.com/vramplan/vramplan/estimator/memory"

// Heap is what a session allocates from: PyTorch's caching allocator, or something that
// writes down what it is asked for.
type Heap interface {
	// Alloc returns a handle for bytes.
	Alloc(bytes int64) int32
	Free(handle int32)
}

// Keeping is a heap that keeps states by itself: each is made once, however often it is asked for.
type Keeping interface {
	Heap
	Keep(bytes int64)
}

// Streaming is a heap that knows streams: what was allocated on one is not given to another. A heap that does not gets
// everything as if there were one stream.
type Streaming interface {
	AllocOn(stream uint8, bytes int64) int32
}

// Releasing is a heap that keeps segments in which nothing is allocated, and gives back those of one of its parts.
type Releasing interface{ ReleasePart(part int) }

// Aside allocates on a stream of a heap, where it knows streams.
func Aside(heap Heap, stream uint8, bytes int64) int32 {
	if h, ok := heap.(Streaming); ok {
		return h.AllocOn(stream, bytes)
	}
	return heap.Alloc(bytes)
}

// None is the handle of nothing.
const None int32 = -1

// Settling is a heap that plays scripts by itself, and can tell whether a part of it is in the same state again.
type Settling interface {
	Heap
	Serve(script []memory.Request, handles []int32, keep bool) int
	// Parts is how many parts there are. What the first of them holds is known without playing: its blocks are as large
	// as what is asked for.
	Parts() int
	// Apart says that the parts have nothing to do with each other.
	Apart() bool
	// State is a hash of everything that decides what a part does next, but for the handles. Parts that are not apart
	// are in a state together.
	State(part int) uint64
	// Part is where a handle belongs, and Address where its memory lies in there.
	Part(handle int32) int
	Address(handle int32) int64
	// Mark keeps where a part stands, and Return brings it back there: what it did on the way stays counted.
	Mark(part int, to *memory.Mark)
	Return(part int, from *memory.Mark)
	// Hold keeps the most that was allocated until it is called again.
	Hold()
	// Paused is above 0 where Serve has ended before a request because more would have been reserved for it than was
	// asked for.
	Paused() int64
	// Failed says that a request could not be met: what follows does not matter any more.
	Failed() bool
}

// BlockBytes is what the allocator rounds requests up to.
const BlockBytes = 512

// Rounded is bytes in whole blocks.
func Rounded(bytes int64) int64 { return (bytes + BlockBytes - 1) &^ (BlockBytes - 1) }
