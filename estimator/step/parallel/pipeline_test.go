package parallel

import (
	"fmt"
	"strings"
	"testing"
)

// TestTurns holds the order of a stage against what Schedule1F1B and ScheduleGPipe do, and that of a GPU with several
// against the pipeline_order of ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble and
// ScheduleDualPipeV of torch 2.9.1: forwards, backwards, and their halves for inputs (I) and weights (W).
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
		{Pipeline{Stage: 0, Stages: 2, Micro: 4, Chunks: 2, Order: ZeroBubble},
			"0F0 0F1 2F0 2F1 2I0 2W0 0F2 2I1 2W1 0F3 0I0 0W0 2F2 0I1 0W1 2F3 2I2 2W2 2I3 2W3 0I2 0W2 0I3 0W3"},
		{Pipeline{Stage: 1, Stages: 2, Micro: 4, Chunks: 2, Order: ZeroBubble},
			"1F0 1F1 3F0 3I0 3F1 3I1 3W0 1F2 1I0 3W1 1F3 1I1 1W0 3F2 3I2 1W1 3F3 3I3 3W2 1I2 3W3 1I3 1W2 1W3"},
		{Pipeline{Stage: 2, Stages: 4, Micro: 8, Chunks: 3, Order: ZeroBubble},
			"2F0 2F1 2F2 2F3 6F0 6F1 6F2 6F3 10F0 10F1 10I0 10F2 10I1 10F3 10I2 10W0 2F4 10I3 10W1 2F5 6I0 " +
				"10W2 2F6 6I1 10W3 2F7 6I2 6W0 6F4 6I3 6W1 6F5 2I0 6W2 6F6 2I1 6W3 6F7 2I2 2W0 10F4 2I3 2W1 10F5 " +
				"10I4 2W2 10F6 10I5 2W3 10F7 10I6 10W4 10I7 10W5 6I4 10W6 6I5 10W7 6I6 6W4 6I7 6W5 2I4 6W6 2I5 6W7 " +
				"2I6 2W4 2I7 2W5 2W6 2W7"},
		{Pipeline{Stage: 0, Stages: 2, Micro: 4, Chunks: 2, Order: ZeroBubbleV},
			"0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 3W3 0I2 0W2 0I3 0W3"},
		{Pipeline{Stage: 1, Stages: 2, Micro: 2, Chunks: 2, Order: ZeroBubbleV},
			"1F0 2F0 1F1 2F1 2I0 2W0 1I0 1W0 2I1 2W1 1I1 1W1"},
		{Pipeline{Stage: 2, Stages: 4, Micro: 8, Chunks: 2, Order: ZeroBubbleV},
			"2F0 2F1 2F2 5F0 2F3 5F1 2F4 5F2 5I0 5W0 5F3 5I1 5W1 2F5 2I0 2W0 5F4 5I2 5W2 2F6 2I1 2W1 5F5 5I3 " +
				"5W3 2F7 2I2 2W2 5F6 5I4 5W4 2I3 2W3 5F7 5I5 5W5 2I4 5I6 2I5 5I7 2I6 2W4 2I7 2W5 5W6 5W7 2W6 2W7"},
		{Pipeline{Stage: 0, Stages: 2, Micro: 4, Chunks: 2, Order: DualPipeV},
			"0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3 3B1 3F2 0B0 3B2 3F3 0B1 3B3 0I2 0W2 0I3 0W3"},
		{Pipeline{Stage: 1, Stages: 2, Micro: 4, Chunks: 2, Order: DualPipeV},
			"1F0 2F0 1F1 2F1 1F2 2B0 2F2 1B0 1F3 2B1 2F3 1B1 2B2 1B2 2I3 1I3 2W3 1W3"},
		{Pipeline{Stage: 2, Stages: 4, Micro: 10, Chunks: 2, Order: DualPipeV},
			"2F0 2F1 2F2 5F0 2F3 5F1 2F4 5F2 5I0 5W0 5F3 2F5 5B1 5F4 2B0 2F6 5B2 5F5 2B1 2F7 5B3 5F6 2B2 2F8 " +
				"5B4 5F7 2B3 2F9 5B5 5F8 2B4 5B6 5F9 2B5 5B7 2B6 5B8 2I7 5I9 2I8 2W7 2I9 5W9 2W8 2W9"},
	}
	for _, tt := range tests {
		var got []string
		for _, turn := range tt.p.Turns() {
			way := string("FBIW"[turn.Way])
			if tt.p.Chunks > 1 {
				stage := turn.Chunk*tt.p.Stages + tt.p.Stage
				if turn.Chunk == 1 && tt.p.Order.V() {
					stage = 2*tt.p.Stages - 1 - tt.p.Stage
				}
				way = fmt.Sprint(stage, way)
			}
			got = append(got, fmt.Sprint(way, turn.Micro))
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("stage %d of %d does %s, want %s", tt.p.Stage, tt.p.Stages, s, tt.want)
		}
	}
}
