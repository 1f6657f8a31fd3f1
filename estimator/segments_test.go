package estimator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/oracle/tracefile"
)

// segmentTrace is what PyTorch's caching allocator took from the driver for a job, as oracle/trace.py --segments writes
// it.
type segmentTrace struct {
	ID         string        `json:"id"`
	Job        Job           `json:"job"`
	Card       [2]int        `json:"card"`
	Default    takenSegments `json:"default"`
	Expandable takenSegments `json:"expandable"`
}

// takenSegments are pairs: how many allocations came before, and by how many bytes more or less was reserved for the
// next one; on a card with room, and on one of LeastMiB, the smallest on which the steps finish, to 2 MiB.
type takenSegments struct {
	Allocated    int64      `json:"allocated_bytes"`
	Reserved     int64      `json:"reserved_bytes"`
	LeastMiB     int64      `json:"least_mib"`
	Taken        [][2]int64 `json:"taken"`
	TakenAtLeast [][2]int64 `json:"taken_at_least"`
}

// TestSegmentsEqualTraces holds the allocator against PyTorch's own, segment by segment: what it takes from the driver
// before which allocation, and gives back, with fixed and with expandable segments; on a card with room and on the
// smallest that the job runs on. On one that is 2 MiB smaller it runs out of memory.
func TestSegmentsEqualTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/segments/*.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	var all comparison
	for _, name := range files {
		err := tracefile.EachLine(name, func(line []byte) error {
			var c segmentTrace
			if err := json.Unmarshal(line, &c); err != nil {
				return err
			}
			t.Run(c.ID+" "+c.Job.Training.Versions["torch"], func(t *testing.T) {
				all.add(t, "default", func(t *testing.T) *difference { return c.equal(t, false, &c.Default) })
				all.add(t, "expandable", func(t *testing.T) *difference { return c.equal(t, true, &c.Expandable) })
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	all.end(t)
}

func (c *segmentTrace) equal(t *testing.T, expandable bool, want *takenSegments) *difference {
	var found difference
	differs := func(first, format string, args ...any) {
		found.first = cmp.Or(found.first, first)
		found.detail += fmt.Sprintf(format, args...) + "\n"
	}
	in := Input{Job: c.Job, GPUs: []GPU{{ComputeCapability: c.Card[0], Multiprocessors: c.Card[1]}}}
	steps := 3
	if c.Job.Training.GradientAccumulation > 1 {
		steps = 2
	}
	in.OwnLoop = true
	play := func(limit int64) *segmentList {
		list := &segmentList{heap: memory.NewAllocator(memory.Settings{Expandable: expandable})}
		list.heap.Reset(memory.Settings{Expandable: expandable}, limit)
		if err := Replay(in, list, steps, true); err != nil {
			t.Fatal(err)
		}
		return list
	}
	if got := play(0); !gocmp.Equal(want.Taken, got.taken) {
		differs("segments with room", "with room (- traced, + replayed):\n%s", gocmp.Diff(want.Taken, got.taken))
	}
	if got := play(want.LeastMiB << 20); got.heap.Failed() {
		differs("the least memory", "the job does not finish within %d MiB", want.LeastMiB)
	} else if !gocmp.Equal(want.TakenAtLeast, got.taken) {
		differs("segments in the least memory", "within %d MiB (- traced, + replayed):\n%s", want.LeastMiB, gocmp.Diff(want.TakenAtLeast, got.taken))
	}
	if got := play((want.LeastMiB - 2) << 20); !got.heap.Failed() {
		differs("the least memory", "the job finishes within %d MiB", want.LeastMiB-2)
	}
	in.Job.Training.Allocator = &Allocator{ExpandableSegments: expandable}
	answer, err := Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	const tolerance = 200 // the search ends within half a percent
	least := want.LeastMiB << 20
	switch p := &answer.Peak; {
	case p.AllocatedBytes != want.Allocated || p.ReservedBytes != want.Reserved:
		differs("the answer's peak", "allocated and reserved are %d and %d, traced %d and %d", p.AllocatedBytes,
			p.ReservedBytes, want.Allocated, want.Reserved)
	case p.MinimumLimitBytes <= least-4<<20 || p.MinimumLimitBytes > least+max(2<<20, least/tolerance):
		differs("the answer's least", "the smallest limit is %d, traced %d", p.MinimumLimitBytes, least)
	}
	if found.first == "" {
		return nil
	}
	return &found
}

// segmentList is an allocator that writes down how much it reserves.
type segmentList struct {
	heap           *memory.Allocator
	taken          [][2]int64 // after how many allocations it changed, and by how much
	made, reserved int64
}

func (l *segmentList) Alloc(bytes int64) int32 { return l.AllocOn(0, bytes) }

func (l *segmentList) AllocOn(stream uint8, bytes int64) int32 {
	handle := l.heap.AllocOn(stream, bytes)
	l.heap.ForgetPeaks() // so that the peak is what is reserved now
	if now := l.heap.PeakReserved(); now != l.reserved {
		l.taken, l.reserved = append(l.taken, [2]int64{l.made, now - l.reserved}), now
	}
	l.made++
	return handle
}

func (l *segmentList) Free(handle int32) { l.heap.Free(handle) }
