package service_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/diagnose"
)

// snapshot is one of testdata/snapshots, which oracle/snapshots.py makes, and the job that ran.
func snapshot(t *testing.T, kind string) (*diagnose.Dump, *estimator.Job) {
	t.Helper()
	packed, err := os.ReadFile("testdata/snapshots/" + kind + ".pickle.gz")
	if err != nil {
		t.Fatal(err)
	}
	in, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	dump, err := diagnose.ReadDump(in)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/snapshots/" + kind + ".json")
	if err != nil {
		t.Fatal(err)
	}
	job := &estimator.Job{}
	if err := json.Unmarshal(text, job); err != nil {
		t.Fatal(err)
	}
	return dump, job
}

// TestSnapshots explains snapshots that PyTorch wrote of a loop on the stand-in driver: one that holds what is
// replayed, one that keeps tensors from step to step, and one of a step that failed.
func TestSnapshots(t *testing.T) {
	s := service.New(service.EmbeddedCatalog())
	for _, tt := range []struct {
		kind     string
		moment   diagnose.Moment
		bytes    int64 // torch.cuda.max_memory_allocated() of plain, with what leak keeps; what PyTorch's message says
		departs  []string
		class    diagnose.Class
		requests int64
	}{
		{"plain", diagnose.AtPeak, 81495040, nil, diagnose.ClassUnknown, 0},
		{"leak", diagnose.AtPeak, 81495040 + 3*6553600 + 3*3802624, []string{"3 of 6.2 MiB: 6 are alive and 3 were predicted", "3 of 3.6 MiB: no step of the job asks for this size"}, diagnose.ClassUnknown, 0},
		{"oom", diagnose.AtFailure, 978560512, nil, diagnose.ClassActivations, 46137344},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			dump, job := snapshot(t, tt.kind)
			d, err := s.Diagnose(t.Context(), service.DiagnosisRequest{Text: dump.Text, Job: job, Held: &dump.Held})
			if err != nil {
				t.Fatal(err)
			}
			h := d.Held
			if h.Moment != tt.moment || h.RequestedBytes != tt.requests || d.Class != tt.class {
				t.Errorf("%s, %d asked for, %s: %v", h.Moment, h.RequestedBytes, d.Class, d.Causes[0].Evidence)
			}
			if off := float64(h.AllocatedBytes)/float64(tt.bytes) - 1; off > 0.001 || off < -0.001 {
				t.Errorf("%d allocated, want %d", h.AllocatedBytes, tt.bytes)
			}
			if off := float64(*h.PredictedBytes)/float64(h.AllocatedBytes) - 1; tt.kind == "plain" && (off > 0.001 || off < -0.001) {
				t.Errorf("%d predicted, %d allocated", *h.PredictedBytes, h.AllocatedBytes)
			}
			if len(h.Departures) != len(tt.departs) {
				t.Fatalf("departures: %+v", h.Departures)
			}
			for i, want := range tt.departs {
				if got := h.Departures[i].Text; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "asked for at /home/user/snapshots.py:28 step") {
					t.Errorf("%q, want %q", got, want)
				}
			}
			all := h.RestBytes
			for _, g := range h.Groups {
				all += g.Bytes * g.Count
				if len(g.Names) == 0 && len(tt.departs) == 0 {
					t.Errorf("%d of %d bytes have no name", g.Count, g.Bytes)
				}
			}
			if all != h.AllocatedBytes {
				t.Errorf("groups have %d of %d bytes", all, h.AllocatedBytes)
			}
			without, err := s.Diagnose(t.Context(), service.DiagnosisRequest{Text: dump.Text, Held: &dump.Held})
			if err != nil || without.Held.PredictedBytes != nil || without.Held.AllocatedBytes != h.AllocatedBytes {
				t.Errorf("without the job: %+v, %v", without, err)
			}
		})
	}
}
