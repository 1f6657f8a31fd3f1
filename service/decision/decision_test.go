package decision

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator"
)

func TestDigestIsOfTheContents(t *testing.T) {
	a := Digest([]byte(`{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1, "sequence_length": 9007199254740993}}`))
	if b := Digest([]byte(`{"training":{"sequence_length":9007199254740993,"micro_batch":1},"model":{"preset":"gpt2"}}`)); a != b || !strings.HasPrefix(a, "sha256:") {
		t.Errorf("the same job has the digests %s and %s", a, b)
	}
	if b := Digest([]byte(`{"training":{"sequence_length":9007199254740992,"micro_batch":1},"model":{"preset":"gpt2"}}`)); a == b {
		t.Error("different jobs have the same digest")
	}
	if d := Digest([]byte("{")); d != "" {
		t.Errorf("what is not JSON has the digest %s", d)
	}
}

// A line holds what a replay needs: the document, and the versions that answered it.
func TestRecordCanBeReplayed(t *testing.T) {
	r := Record{ID: NewID(), Time: time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC), Hook: "check", Mode: Enforce,
		Action: "deny"}
	r.SetJob([]byte("{\"model\":\n {\"preset\": \"gpt2\"}}"))
	r.SetResult(&estimator.Result{Versions: estimator.Versions{Estimator: "1"},
		Peak: estimator.Peak{LowBytes: 1, DeviceBytes: 2, HighBytes: 3}},
		estimator.GPUFit{GPU: "t4", Verdict: estimator.DoesNotFit, UsableBytes: 1})
	line, err := r.Line()
	if err != nil || strings.Count(string(line), "\n") != 1 {
		t.Fatalf("%q, %v", line, err)
	}
	var back Record
	if err := json.Unmarshal(line, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	if string(back.Job) != `{"model":{"preset":"gpt2"}}` || back.Verdict != "does_not_fit" ||
		back.Versions.Estimator != "1" {
		t.Errorf("read back %s", line)
	}
	if a, b := NewID(), NewID(); a == b {
		t.Error("two decisions have one id")
	}
}

func TestBest(t *testing.T) {
	card := func(name string, v estimator.Verdict, room int64) estimator.GPUFit {
		return estimator.GPUFit{GPU: name, Verdict: v, HeadroomBytes: room}
	}
	for _, tt := range []struct {
		cards []estimator.GPUFit
		want  string
	}{
		{[]estimator.GPUFit{card("a", estimator.DoesNotFit, -5), card("b", estimator.DoesNotFit, -1)}, "b"},
		{[]estimator.GPUFit{card("a", estimator.DoesNotFit, -5), card("b", estimator.Unknown, 0)}, "b"},
		{[]estimator.GPUFit{card("a", estimator.Fits, 1), card("b", estimator.Tight, 9)}, "a"},
		{[]estimator.GPUFit{card("a", estimator.Unlikely, -1), card("b", estimator.Tight, 0),
			card("c", estimator.Unknown, 0)}, "b"},
	} {
		if got := Best(tt.cards); got.GPU != tt.want {
			t.Errorf("%v: best is %s, want %s", tt.cards, got.GPU, tt.want)
		}
	}
}

func TestSmallerPair(t *testing.T) {
	for _, tt := range []struct{ micro, accumulation, room, m, a int64 }{
		{16, 32, 8, 8, 64}, {16, 32, 5, 4, 128}, {16, 0, 1, 1, 16}, {15, 2, 14, 5, 6}, {15, 2, 2, 1, 30},
		{12, 1, 4, 4, 3},
		{1, 8, 0, 0, 0}, {7, 1, 0, 0, 0}, {1 << 40, 1, 1, 0, 0}, {1<<31 - 1, 1, 1, 0, 0},
	} {
		asked := 0
		m, a, ok := SmallerPair(tt.micro, tt.accumulation, func(m, a int64) bool {
			asked++
			return m <= tt.room
		})
		if m != tt.m || a != tt.a || ok != (tt.m > 0) || asked > maxTries {
			t.Errorf("%d × %d with room for %d: %d × %d after %d questions, want %d × %d", tt.micro, tt.accumulation,
				tt.room, m, a, asked, tt.m, tt.a)
		}
	}
}
