package parallel

import (
	"fmt"
	"strings"
	"testing"
)

// TestTurns holds the order of a stage against what Schedule1F1B and ScheduleGPipe do.
func TestTurns(t *testing.T) {
	tests := []struct {
		p    Pipeline
		want string
	}{
		{Pipeline{Stage: 0, Stages: 2, Micro: 3}, "F0 F1 B0 F2 B1 B2"},
		{Pipeline{Stage: 1, Stages: 2, Micro: 3}, "F0 B0 F1 B1 F2 B2"},
		{Pipeline{Stage: 0, Stages: 4, Micro: 2}, "F0 F1 B0 B1"},
		{Pipeline{Stage: 1, Stages: 2, Micro: 3, AllForward: true}, "F0 F1 F2 B0 B1 B2"},
	}
	for _, tt := range tests {
		var got []string
		for _, turn := range tt.p.Turns() {
			way := "F"
			if turn.Backward {
				way = "B"
			}
			got = append(got, fmt.Sprint(way, turn.Micro))
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("stage %d of %d does %s, want %s", tt.p.Stage, tt.p.Stages, s, tt.want)
		}
	}
}
