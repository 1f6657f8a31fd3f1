package estimator

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/oracle/tracefile"
)

// TestAllocatorSettings holds two optimizer steps of the Trainer under each setting of the allocator against what
// PyTorch allocated and reserved, to the byte.
func TestAllocatorSettings(t *testing.T) {
	err := tracefile.EachLine("accuracy/testdata/kinds/allocator.jsonl", func(line []byte) error {
		var c struct {
			ID    string
			Job   Job
			Truth struct {
				Allocated int64 `json:"allocated_bytes"`
				Reserved  int64 `json:"reserved_bytes"`
			}
		}
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		t.Run(c.ID, func(t *testing.T) {
			c.Job.GPUs = nil
			in := Input{Job: c.Job}
			r, err := resolve.Resolve(&in)
			if err != nil {
				t.Fatal(err)
			}
			heap := memory.NewAllocator(r.Allocator)
			if err := Replay(in, heap, 2, true); err != nil {
				t.Fatal(err)
			}
			if heap.PeakAllocated() != c.Truth.Allocated || heap.PeakReserved() != c.Truth.Reserved {
				t.Errorf("allocated %d and reserved %d, traced are %d and %d", heap.PeakAllocated(), heap.PeakReserved(),
					c.Truth.Allocated, c.Truth.Reserved)
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAllocatorRefused: what no trace has shown is refused.
func TestAllocatorRefused(t *testing.T) {
	_, err := Estimate(Input{Job: Job{Model: Model{HFConfig: []byte(llamaConfig)}, Training: Training{MicroBatch: 1,
		Allocator: &Allocator{MaxSplitSizeMB: 64, ExpandableSegments: true}}}})
	var bad *InvalidJobError
	if !errors.As(err, &bad) || len(bad.Fields) != 1 {
		t.Error(err)
	}
}
