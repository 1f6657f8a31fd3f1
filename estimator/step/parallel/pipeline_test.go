package parallel

import (
	"fmt"
	"strings"
	"testing"
)

// TestTurns holds the order of a stage against what Schedule1F1B and ScheduleGPipe do, and that of a GPU with several
// against ScheduleInterleaved1F1B.pipeline_order of torch 2.9.1.
func TestTurns(t *testing.T) {
	tests := []struct {
		p    Pipeline
		want string
	}{
		{Pipeline{Stage: 0, Stages: 2, Micro: 3}, "F0 F1 B0 F2 B1 B2"},
		{Pipeline{Stage: 1, Stages: 2, Micro: 3}, "F0 B0 F1 B1 F2 B2"},
		{Pipeline{Stage: 0, Stages: 4, Micro: 2}, "F0 F1 B0 B1"},
		{Pipeline{Stage: 1, Stages: 2, Micro: 3, Order: AllForward}, "F0 F1 F2 B0 B1 B2"},
		{Pipeline{Stage: 0, Stages: 2, Micro: 4, Chunks: 2, Order: Interleaved},
			"0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3"},
		{Pipeline{Stage: 1, Stages: 2, Micro: 4, Chunks: 2, Order: Interleaved},
			"1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3"},
		{Pipeline{Stage: 1, Stages: 4, Micro: 3, Chunks: 2, Order: Interleaved},
			"1F0 1F1 1F2 5F0 5F1 5F2 5B0 5B1 5B2 1B0 1B1 1B2"},
		{Pipeline{Stage: 2, Stages: 4, Micro: 10, Chunks: 3, Order: Interleaved},
			"2F0 2F1 2F2 2F3 2F4 6F0 6F1 6F2 6F3 6F4 10F0 10F1 10F2 10B0 10F3 10B1 10F4 10B2 2F5 10B3 2F6 10B4 2F7 " +
				"6B0 2F8 6B1 2F9 6B2 6F5 6B3 6F6 6B4 6F7 2B0 6F8 2B1 6F9 2B2 10F5 2B3 10F6 2B4 10F7 10B5 10F8 10B6 " +
				"10F9 10B7 10B8 10B9 6B5 6B6 6B7 6B8 6B9 2B5 2B6 2B7 2B8 2B9"},
	}
	for _, tt := range tests {
		var got []string
		for _, turn := range tt.p.Turns() {
			way := "F"
			if turn.Backward {
				way = "B"
			}
			if tt.p.Chunks > 1 {
				way = fmt.Sprint(turn.Chunk*tt.p.Stages+tt.p.Stage, way)
			}
			got = append(got, fmt.Sprint(way, turn.Micro))
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("stage %d of %d does %s, want %s", tt.p.Stage, tt.p.Stages, s, tt.want)
		}
	}
}
