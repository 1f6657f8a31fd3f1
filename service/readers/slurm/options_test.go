package slurm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScriptOptions(t *testing.T) {
	got := Script([]byte("#!/bin/bash\n#SBATCH -p small -C a100 # why\n#SBATCH --gres=gpu:1 --comment='two " +
		"words'\n#SBATCH -G2\n\n#SBATCH --partition=gpu\nhostname\n#SBATCH --gpus-per-node=9\n"))[0].Options()
	want := Options{GRES: "gpu:1", GPUs: "2", Constraint: "a100", Partition: "gpu", Comment: "two words"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAskedAndCounted(t *testing.T) {
	for _, tt := range []struct {
		gres  string
		asked bool
		count int
	}{
		{"gpu", true, 1}, {"gpu:4", true, 4}, {"gpu:a100:4,gpu:v100:2", true, 6}, {"gpu:a100", true, 1},
		{"shard:4", false, 0}, {"", false, 0}, {"nic:mlx:4", false, 0}, {"gpu:4k", true, 0}, {"gpu:0", false, 0},
		{"none", false, 0}, {"gpu:a100:0", false, 0}, {"gpu:a100:0,gpu:v100:1", true, 1},
	} {
		o := Options{GRES: tt.gres}
		if got := o.Asked(); got != tt.asked {
			t.Errorf("%q: asked %v, want %v", tt.gres, got, tt.asked)
		}
		if got := GPUCount(tt.gres); got != tt.count {
			t.Errorf("%q: %d GPUs, want %d", tt.gres, got, tt.count)
		}
	}
}

func TestCount(t *testing.T) {
	for _, tt := range []struct {
		options Options
		want    int
	}{
		{Options{GRES: "gpu:1"}, 1}, {Options{GRES: "gpu:a100:4", Nodes: "2"}, 8},
		{Options{GPUs: "h100:8", Nodes: "2-4"}, 8},
		{Options{GPUsPerNode: "2", Nodes: "3-5"}, 6}, {Options{GPUsPerTask: "1", Tasks: "4"}, 4},
		{Options{GRES: "gpu:1", Tasks: "8"}, 1},
		{Options{}, 0}, {Options{GRES: "gpu:1", Nodes: "x"}, 1},
	} {
		if got := tt.options.Count(); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.options, got, tt.want)
		}
	}
}

func TestOverride(t *testing.T) {
	for comment, want := range map[string]string{
		"vramplan:override=I measured it": "I measured it", "mine; vramplan:override=why": "why",
		"vramplan:override=": "", "override=why": "", "": "",
	} {
		if got := (&Options{Comment: comment}).Override(); got != want {
			t.Errorf("%q: %q, want %q", comment, got, want)
		}
	}
}

// The words behind hetjob are those of the next component alone.
func TestComponents(t *testing.T) {
	var got []Options
	for _, c := range Script([]byte("#!/bin/sh\n#SBATCH --gres=gpu:h200:1 -n 2\n#SBATCH hetjob\n#SBATCH --ntasks=1\n" +
		"#SBATCH packjob\n#SBATCH -G rtx-4070:1 -G h100:2\ntrue\n#SBATCH hetjob\n")) {
		got = append(got, c.Options())
	}
	want := []Options{{GRES: "gpu:h200:1", Tasks: "2"}, {Tasks: "1"}, {GPUs: "h100:2"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGroups(t *testing.T) {
	for value, want := range map[string][]int{"0": {0}, "1": {1}, "0,2": {0, 2}, "0-2": {0, 1, 2}, "1,3-4": {1, 3, 4},
		"": nil, "a": nil, "2-1": nil, "999": nil, "-1": nil, "1-": nil} {
		got, ok := Groups(value)
		if ok != (want != nil) || ok && !cmp.Equal(want, got) {
			t.Errorf("%q: %v, %v; want %v", value, got, ok, want)
		}
	}
}
