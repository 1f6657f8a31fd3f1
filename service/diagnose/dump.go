package diagnose

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/diagnose/pickle"
)

// Dump is what is kept of a memory snapshot as torch.cuda.memory._dump_snapshot writes it.
type Dump struct {
	// Text is its sums in the form that [Read] reads.
	Text string
	// Held is what the device that held most had allocated.
	Held Allocations
}

// Allocations are what a process had allocated of PyTorch's caching allocator at one moment.
type Allocations struct {
	// Moment is which: the largest of the history, the last request that failed, or, without a history, when the
	// snapshot was taken.
	Moment Moment `json:"moment" validate:"required,oneof=peak failure end"`
	// AllocatedBytes is all of it.
	AllocatedBytes int64 `json:"allocated_bytes" validate:"gte=0,lte=9007199254740991" example:"101683712"`
	// RequestedBytes is what was asked for when it failed.
	RequestedBytes int64 `json:"requested_bytes,omitempty" validate:"gte=0,lte=9007199254740991"`
	// Blocks are the allocations by size and by the line that asked, the largest first; together no more than
	// allocated_bytes.
	Blocks []HeldBlocks `json:"blocks" validate:"max=4096,dive"`
}

// HeldBlocks are allocations of one size that one line asked for.
type HeldBlocks struct {
	// Bytes is what each takes, a multiple of 512.
	Bytes int64 `json:"bytes" validate:"required,gte=1,lte=9007199254740991" example:"6553600"`
	Count int64 `json:"count" validate:"required,gte=1,lte=9007199254740991" example:"3"`
	// At is the innermost line of Python outside of PyTorch. It is not there where none is known: autograd's own
	// threads have none.
	At string `json:"at,omitempty" validate:"max=300"`
}

// Whole says whether all blocks together are no more than what was allocated, so that no sum of them turns round.
func (a *Allocations) Whole() bool {
	left := a.AllocatedBytes
	for _, b := range a.Blocks {
		if b.Bytes <= 0 || b.Count > left/b.Bytes {
			return false
		}
		left -= b.Bytes * b.Count
	}
	return true
}

// Moment is a moment of a history.
type Moment string

// The moments of a snapshot.
const (
	AtPeak    Moment = "peak"
	AtFailure Moment = "failure"
	AtEnd     Moment = "end"
)

// dumpLimits bound what is read of a snapshot: a hundred thousand events, with the stacks that asked, are 8 MB of a
// file and take 60 MB.
var dumpLimits = pickle.Limits{Bytes: 2 << 30, Memory: 4 << 30}

const (
	// maxWalk is how many blocks, events and frames are looked at: a pickle may name one list a million times.
	maxWalk = 20_000_000
	// maxBlocks is how many rows of blocks are kept, and maxAt how much of a line.
	maxBlocks = 4096
	maxAt     = 300
	// mostHeld is what all blocks take at most, the largest number that every reader of JSON knows.
	mostHeld = 1<<53 - 1
	// granule is what the allocator rounds sizes up to (CUDACachingAllocator.cpp, kMinBlockSize).
	granule = 512
)

var errDump = errors.New("it is no memory snapshot as torch.cuda.memory._dump_snapshot writes it: a dictionary with the " +
	"list segments is missing")

// ReadDump reads a memory snapshot, or one that gzip made smaller. Nothing of the file is run: see [pickle.Decode].
func ReadDump(r io.Reader) (*Dump, error) {
	in := bufio.NewReader(r)
	var plain io.Reader = in
	switch head, _ := in.Peek(2); {
	case string(head) == "\x1f\x8b":
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("it begins as gzip's files do: %w", err)
		}
		plain = unpacked
	case string(head) == "PK": // an archive, such as torch.save's
		return nil, errDump
	case len(head) > 0 && (head[0] == '{' || head[0] == '['):
		return nil, errors.New("it is JSON and no pickle: a snapshot in JSON is given as a text (-f FILE)")
	}
	v, err := pickle.Decode(plain, dumpLimits)
	if errors.Is(err, pickle.ErrTooLarge) {
		return nil, fmt.Errorf("%w: record fewer events, as by torch.cuda.memory._record_memory_history(max_entries=1000000)", err)
	}
	if err != nil {
		return nil, err
	}
	whole, _ := v.(*pickle.Dict)
	segments, ok := whole.Get("segments").(*pickle.List)
	if !ok {
		return nil, errDump
	}
	w := &walk{left: maxWalk, sums: map[int]*snapshotSums{}, alive: map[int]map[uint64]block{}}
	for _, s := range segments.Items {
		w.segment(s)
	}
	best := &Dump{Held: Allocations{Moment: AtEnd, Blocks: []HeldBlocks{}}}
	traced := items(whole.Get("device_traces"))
	for at := range maxSnapshotDevices {
		var history []any
		if at < len(traced) {
			history = items(traced[at])
		}
		if w.alive[at] == nil && len(history) == 0 {
			continue
		}
		// A device on which a request failed is what the snapshot is about.
		held := w.device(at, history)
		failed, before := held.Moment == AtFailure, best.Held.Moment == AtFailure
		if failed && !before || failed == before && held.AllocatedBytes > best.Held.AllocatedBytes {
			best.Held = held
		}
	}
	if w.left < 0 {
		return nil, fmt.Errorf("%w: more than %d blocks, events and frames", pickle.ErrTooLarge, maxWalk)
	}
	if best.Text = snapshotLines(w.sums); best.Text == "" {
		return nil, errors.New("it is a memory snapshot in which nothing is allocated on any device")
	}
	return best, nil
}

// block is one that is alive: its size and the stack that asked for it.
type block struct {
	bytes  int64
	frames any
}

// walk goes over what a pickle holds; left counts what it still may look at.
type walk struct {
	left  int
	sums  map[int]*snapshotSums
	alive map[int]map[uint64]block
}

func items(v any) []any {
	list, ok := v.(*pickle.List)
	if !ok {
		return nil
	}
	return list.Items
}

func integer(v any) int64 {
	n, _ := v.(int64)
	return n
}

func address(v any) uint64 {
	switch n := v.(type) {
	case int64:
		return uint64(n)
	case uint64:
		return n
	}
	return 0
}

// sizeOf is a number of bytes that a card may have, 0 for any other.
func sizeOf(v any) int64 {
	if n := integer(v); n > 0 && n <= noLimitBytes {
		return n
	}
	return 0
}

func rounded(n int64) int64 { return (n + granule - 1) / granule * granule }

// segment adds a segment to the sums, and its blocks to what is alive in the end.
func (w *walk) segment(v any) {
	s, ok := v.(*pickle.Dict)
	device := int(integer(s.Get("device")))
	total := sizeOf(s.Get("total_size"))
	if w.left--; w.left < 0 || !ok || total == 0 || device < 0 || device >= maxSnapshotDevices {
		return
	}
	on := w.sums[device]
	if on == nil {
		on = &snapshotSums{}
		w.sums[device], w.alive[device] = on, map[uint64]block{}
	}
	if on.reserved > noLimitBytes-total {
		return
	}
	on.segments++
	on.reserved += total
	on.allocated += min(sizeOf(s.Get("allocated_size")), total)
	at := address(s.Get("address"))
	for _, v := range items(s.Get("blocks")) {
		if w.left--; w.left < 0 {
			return
		}
		b, _ := v.(*pickle.Dict)
		bytes := sizeOf(b.Get("size"))
		switch b.Get("state") {
		case "inactive":
			on.free += bytes
			on.largest = max(on.largest, bytes)
		case "active_allocated":
			start := at
			if given := b.Get("address"); given != nil { // since torch 2.1; blocks lie one behind another
				start = address(given)
			}
			if asked := sizeOf(b.Get("requested_size")); asked > 0 {
				w.alive[device][start] = block{rounded(asked), b.Get("frames")}
			} else if bytes > 0 {
				w.alive[device][start] = block{rounded(bytes), b.Get("frames")}
			}
		}
		at += uint64(bytes)
	}
}

// device is what a device held at its moment, by its history gone through backwards from what is alive in the end.
func (w *walk) device(at int, history []any) Allocations {
	held := Allocations{Moment: AtEnd}
	alive := w.alive[at]
	if alive == nil {
		alive = map[uint64]block{}
	}
	var now int64
	for _, b := range alive {
		now += b.bytes
	}
	type change struct {
		at     uint64
		bytes  int64
		frames any
		free   bool
	}
	changes := make([]change, 0, min(len(history), max(w.left, 0)))
	failure, failed := -1, (*pickle.Dict)(nil)
	for _, v := range history {
		if w.left--; w.left < 0 {
			return held
		}
		e, _ := v.(*pickle.Dict)
		switch e.Get("action") {
		case "alloc":
			changes = append(changes, change{address(e.Get("addr")), rounded(sizeOf(e.Get("size"))),
				e.Get("frames"), false})
		case "free_requested":
			changes = append(changes, change{address(e.Get("addr")), rounded(sizeOf(e.Get("size"))), nil, true})
		case "oom":
			failure, failed = len(changes), e
		}
	}
	moment, most := len(changes), now
	for i := len(changes) - 1; i >= 0; i-- {
		if changes[i].free {
			now += changes[i].bytes
		} else {
			now -= changes[i].bytes
		}
		if now > most {
			moment, most = i, now
		}
	}
	if len(changes) > 0 {
		held.Moment = AtPeak
	}
	if failed != nil {
		held.Moment, moment, held.RequestedBytes = AtFailure, failure, sizeOf(failed.Get("size"))
		if on := w.sums[at]; on != nil {
			on.requested, on.deviceFree = held.RequestedBytes, sizeOf(failed.Get("device_free"))
		}
	}
	for i := len(changes) - 1; i >= moment; i-- {
		if c := &changes[i]; c.free {
			alive[c.at] = block{c.bytes, nil}
		} else {
			delete(alive, c.at)
		}
	}
	for i := range moment {
		if c := &changes[i]; !c.free {
			if b, ok := alive[c.at]; ok {
				alive[c.at] = block{b.bytes, c.frames}
			}
		}
	}
	held.Blocks = w.rows(alive, &held.AllocatedBytes)
	if failed != nil && w.sums[at] != nil {
		// The segments are those of the snapshot, when what the failed step held was long given back.
		w.sums[at].allocated = min(held.AllocatedBytes, w.sums[at].reserved)
	}
	return held
}

// rows groups what is alive by size and line, the largest first.
func (w *walk) rows(alive map[uint64]block, total *int64) []HeldBlocks {
	type key struct {
		bytes int64
		at    string
	}
	counts := map[key]int64{}
	for _, b := range alive {
		if b.bytes > 0 && b.bytes <= mostHeld-*total {
			*total += b.bytes
			counts[key{b.bytes, w.line(b.frames)}]++
		}
	}
	rows := make([]HeldBlocks, 0, len(counts))
	for k, n := range counts {
		rows = append(rows, HeldBlocks{Bytes: k.bytes, Count: n, At: k.at})
	}
	slices.SortFunc(rows, func(a, b HeldBlocks) int {
		return cmp.Or(cmp.Compare(b.Bytes*b.Count, a.Bytes*a.Count), cmp.Compare(b.Bytes, a.Bytes),
			strings.Compare(a.At, b.At))
	})
	return rows[:min(len(rows), maxBlocks)]
}

// line is the innermost line of Python outside of PyTorch.
func (w *walk) line(frames any) string {
	for _, v := range items(frames) {
		if w.left--; w.left < 0 {
			return ""
		}
		f, _ := v.(*pickle.Dict)
		file, _ := f.Get("filename").(string)
		if !strings.HasSuffix(file, ".py") || strings.Contains(file, "/torch/") {
			continue
		}
		if _, behind, ok := strings.Cut(file, "site-packages/"); ok {
			file = behind
		}
		name, _ := f.Get("name").(string)
		text := strings.ToValidUTF8(fmt.Sprintf("%s:%d %s", file, integer(f.Get("line")), name), "")
		return text[:min(len(text), maxAt)]
	}
	return ""
}
