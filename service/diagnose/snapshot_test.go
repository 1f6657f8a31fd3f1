package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// segment is a segment of a snapshot as json.dumps writes it, of MiB.
func segment(total, allocated int, free ...int) string {
	blocks := []string{fmt.Sprintf(`{"size": %d, "requested_size": 1, "state": "active_allocated", "frames": []}`,
		allocated<<20)}
	for _, f := range free {
		blocks = append(blocks, fmt.Sprintf(`{"size": %d, "requested_size": 0, "state": "inactive"}`, f<<20))
	}
	return fmt.Sprintf(`{"device": 0, "address": 140, "total_size": %d, "allocated_size": %d, "active_size": %d, "stream": 0, "segment_type": "large", "blocks": [%s]}`,
		total<<20, allocated<<20, allocated<<20, strings.Join(blocks, ", "))
}

func TestSnapshot(t *testing.T) {
	list := segment(8192, 4096, 2048, 2048) + ", " + segment(4096, 3072, 1024)
	oom := `{"segments": [` + list +
		`], "device_traces": [[{"action": "alloc", "size": 5}, {"action": "oom", "size": 2684354560, "device_free": 104857600}]], "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""}}`
	for _, tt := range []struct {
		name, text string
		class      Class
	}{
		{"a list of segments has no failure", "[" + list + "]", ClassUnknown},
		{"a request that failed between free pieces", oom, ClassFragmentation},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, err := Extract(strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			for _, read := range []*Text{Read(text), Read(tt.text)} {
				if len(read.Summaries) != 1 || *read.Summaries[0].AllocatedBytes != 7168<<20 ||
					*read.Summaries[0].ReservedBytes != 12288<<20 {
					t.Fatalf("summaries: %+v", read.Summaries)
				}
				if got := read.Explain(Job{}, nil)[0]; got.Class != tt.class {
					t.Errorf("class %s, want %s: %v", got.Class, tt.class, got.Evidence)
				}
			}
		})
	}
	if _, err := Extract(strings.NewReader(oom[:len(oom)/2])); err == nil {
		t.Error("half a snapshot is read")
	}
}

func FuzzSnapshot(f *testing.F) {
	f.Add("[" + segment(64, 32, 16, 16) + "]")
	f.Add(`{"segments": [], "device_traces": [[{"action": "oom", "size": 1}]]}`)
	f.Add(`{"device_traces": [], "segments": [{"total_size": 9223372036854775807}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for line := range strings.Lines(snapshotText(strings.NewReader(text))) {
			if len(line) > 1000 {
				t.Errorf("a line of %d bytes", len(line))
			}
		}
		Read(text).Explain(Job{}, nil)
	})
}

func TestLeak(t *testing.T) {
	const oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 100.00 MiB. GPU 0 has a total capacity " +
		"of 79.15 GiB of which 50.00 MiB is free. Including non-PyTorch memory, this process has 79.10 GiB memory in " +
		"use. Of the allocated memory 78.00 GiB is allocated by PyTorch, and 300.00 MiB is reserved by PyTorch " +
		"but unallocated.\n"
	log := func(figures ...float64) string {
		var b strings.Builder
		for i, g := range figures {
			fmt.Fprintf(&b, "step %d | loss 2.31 | mem %.1fGiB | 1.2s/it\n", i*10, g)
		}
		return b.String() + oom
	}
	for _, tt := range []struct {
		name, text string
		held       bool
	}{
		{"rises from step to step", log(20, 28, 36, 44, 52, 60, 68, 76), true},
		{"stays", log(70, 70, 70.1, 70, 70, 70, 70), false},
		{"longer samples, ever less", log(20, 50, 62, 68, 72, 73, 73.1, 73.2), false},
		{"one jump", log(20, 20.1, 20.2, 20.3, 20.4, 20.5, 76), false},
		{"too few figures", log(20, 40, 60), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Read(tt.text).Explain(Job{}, nil)[0]
			if (got.Class == ClassHeld) != tt.held {
				t.Errorf("class %s: %v", got.Class, got.Evidence)
			}
		})
	}
}

func TestComputeApps(t *testing.T) {
	c := Read("pid, process_name, used_gpu_memory [MiB]\n4711, python, 30990 MiB\n815, /usr/bin/python3, 1200 MiB\n").Explain(Job{}, nil)[0]
	if c.Class != ClassNone || !strings.Contains(strings.Join(c.Evidence, "\n"), "process 4711 holds 30990 MiB") {
		t.Errorf("%s: %v", c.Class, c.Evidence)
	}
}

func TestApple(t *testing.T) {
	const message = "RuntimeError: MPS backend out of memory (MPS allocated: 16.00 GB, other allocations: 3.31 GB, max " +
		"allowed: 18.13 GB). Tried to allocate 256 bytes on shared pool."
	for name, tt := range map[string]struct {
		text  string
		job   Job
		class Class
		how   Certainty
	}{
		"no word of training": {message, Job{}, ClassInference, Likely},
		"a backward pass":     {"    loss.backward()\n" + message, Job{}, ClassLimit, Exact},
		"a trainer that ends": {message + "\nTraining failed", Job{}, ClassLimit, Exact},
		"with the job":        {message, Job{Known: true}, ClassLimit, Exact},
		"it generates":        {"  File \"g.py\", line 3, in generate\n" + message, Job{}, ClassInference, Likely},
	} {
		c := Read(tt.text).Explain(tt.job, nil)[0]
		if c.Class != tt.class || c.Certainty != tt.how {
			t.Errorf("%s: %s, %s", name, c.Class, c.Certainty)
		}
		if !slices.ContainsFunc(c.Actions, func(a Advice) bool { return a.Code == "mps-limit" }) {
			t.Errorf("%s: the limit is not said: %v", name, c.Actions)
		}
	}
}
