package estimator

import (
	"testing"

	"github.com/vramplan/vramplan/estimator/resolve/strategies"
)

// TestNCCLBounds counts the groups of a mesh, each of which raises the upper bound and nothing else.
func TestNCCLBounds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		d      Distributed
		groups int64
		high   int64
	}{
		{"copies", Distributed{WorldSize: 8}, 1, 1 << 30},
		{"parts", Distributed{WorldSize: 8, Data: "fsdp"}, 1, 1 << 30},
		{"ZeRO", Distributed{WorldSize: 8, Data: "zero3"}, 1, 1 << 30},
		{"groups that share parts", Distributed{WorldSize: 16, Data: "fsdp", ShardGroup: 8}, 2, 1<<30 + 2_200_000_000},
		{"layers and parts", Distributed{WorldSize: 8, Data: "fsdp", TensorParallel: 2}, 2, 1<<30 + 2_200_000_000},
		{"stages alone", Distributed{WorldSize: 2, PipelineParallel: 2}, 1, 1 << 30},
		{"stages, layers and parts", Distributed{WorldSize: 8, Data: "fsdp", PipelineParallel: 2, TensorParallel: 2}, 3,
			1<<30 + 4_400_000_000},
		{"sequences handed on", Distributed{WorldSize: 2, Data: "fsdp", ContextParallel: 2,
			ContextParallelKind: "alltoall"}, 2, 1<<30 + 2_200_000_000 + 3_280_000_000},
	} {
		u := &Training{Distributed: &tt.d}
		got := strategies.NCCLOf(u)
		if n := strategies.Communicators(u); n != tt.groups || got.High != tt.high || got.Low != 0 ||
			got.Bytes > strategies.NcclMore.Bytes {
			t.Errorf("%s: %d groups and %+v, want %d and at most %d", tt.name, n, got, tt.groups, tt.high)
		}
	}
}
