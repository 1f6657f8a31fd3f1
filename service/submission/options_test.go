package submission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScriptOptions(t *testing.T) {
	got := scriptOptions([]byte("#!/bin/bash\n#SBATCH -p small -C a100 # why\n#SBATCH --gres=gpu:1 --comment='two " +
		"words'\n#SBATCH -G2\n\n#SBATCH --partition=gpu\nhostname\n#SBATCH --gpus-per-node=9\n"))
	want := Options{GRES: "gpu:1", GPUs: "2", Constraint: "a100", Partition: "gpu", Comment: "two words"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCommandLineWins(t *testing.T) {
	found, err := Find(Source{Script: []byte("#SBATCH --gres=gpu:a100:1 -C ib -p small\n#VRAMPLAN model=gpt2"),
		Options: Options{GPUs: "h100:2", Partition: "large"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Options{GPUs: "h100:2", Constraint: "ib", Partition: "large"}, found.Options); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCards(t *testing.T) {
	site := Site{
		Partitions: map[string][]string{"gpu": {"rtx-4070"}, "big": {"h100", "h200"}},
		GPUs:       map[string][]string{"vram12g": {"rtx-4070", "rtx-3060"}, "nvidia_a": {"a100-80gb"}},
	}
	known := func(name string) bool { return name == "a100" || name == "v100" }
	for _, tt := range []struct {
		name    string
		options Options
		want    []string
	}{
		{"a type", Options{GRES: "gpu:a100:4"}, []string{"a100"}},
		{"a type without a number", Options{GRES: "gpu:a100"}, []string{"a100"}},
		{"two types", Options{GRES: "gpu:a100:1,gpu:v100:1"}, []string{"a100", "v100"}},
		{"beside other resources", Options{GRES: "shard:2,gpu:a100:1(S:0-1),nic:mlx:1"}, []string{"a100"}},
		{"as slurmctld writes it", Options{GRES: "gres:gpu:a100:1"}, []string{"a100"}},
		{"as newer releases write it", Options{GRES: "gres/gpu:a100=1"}, []string{"a100"}},
		{"in --gpus", Options{GPUs: "h100:8"}, []string{"h100"}},
		{"in --gpus-per-task", Options{GPUsPerTask: "h100"}, []string{"h100"}},
		{"a slice", Options{GRES: "gpu:a100_1g.5gb:1"}, []string{"a100-mig-1g.5gb"}},
		{"a site's type", Options{GRES: "gpu:nvidia_a:1"}, []string{"a100-80gb"}},
		{"a type that nobody knows", Options{GRES: "gpu:gtx9000:1"}, []string{"gtx9000"}},
		{"a number, and a feature", Options{GPUs: "2", Constraint: "[a100*2|v100]&ib"}, []string{"a100", "v100"}},
		{"a card or a feature that nobody knows", Options{GPUs: "1", Constraint: "a100|bigmem"}, nil},
		{"racks and a card", Options{GPUs: "1", Constraint: "[rack1|rack2]&a100"}, []string{"a100"}},
		{"a site's feature", Options{GRES: "gpu:1", Constraint: "ib&vram12g"}, []string{"rtx-4070", "rtx-3060"}},
		{"a partition", Options{GRES: "gpu:1", Partition: "gpu"}, []string{"rtx-4070"}},
		{"one of two partitions", Options{GRES: "gpu:1", Partition: "gpu,big"}, []string{"rtx-4070", "h100", "h200"}},
		{"a partition that the site does not tell of", Options{GRES: "gpu:1", Partition: "gpu,new"}, nil},
		{"nothing", Options{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.options.Cards(site, known)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAskedAndCounted(t *testing.T) {
	for _, tt := range []struct {
		gres  string
		asked bool
		count int
	}{
		{"gpu", true, 1}, {"gpu:4", true, 4}, {"gpu:a100:4,gpu:v100:2", true, 6}, {"gpu:a100", true, 1},
		{"shard:4", false, 0}, {"", false, 0}, {"nic:mlx:4", false, 0}, {"gpu:4k", true, 0},
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
