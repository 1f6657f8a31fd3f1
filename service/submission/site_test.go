package submission

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/service/readers/slurm"
)

// Of one option the command line's counts, and options that the script alone has stay.
func TestCommandLineWins(t *testing.T) {
	found, err := Find(context.Background(), Source{Script: []byte("#SBATCH --gres=gpu:a100:1 -C ib -p small\n#VRAMPLAN model=gpt2"),
		Options: slurm.Options{GPUs: "h100:2", Partition: "large"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slurm.Options{GRES: "gpu:a100:1", GPUs: "h100:2", Constraint: "ib", Partition: "large"}, found.Options); diff != "" {
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
		options slurm.Options
		want    []string
	}{
		{"a type", slurm.Options{GRES: "gpu:a100:4"}, []string{"a100"}},
		{"a type without a number", slurm.Options{GRES: "gpu:a100"}, []string{"a100"}},
		{"two types", slurm.Options{GRES: "gpu:a100:1,gpu:v100:1"}, []string{"a100", "v100"}},
		{"beside other resources", slurm.Options{GRES: "shard:2,gpu:a100:1(S:0-1),nic:mlx:1"}, []string{"a100"}},
		{"as slurmctld writes it", slurm.Options{GRES: "gres:gpu:a100:1"}, []string{"a100"}},
		{"as newer releases write it", slurm.Options{GRES: "gres/gpu:a100=1"}, []string{"a100"}},
		{"in --gpus", slurm.Options{GPUs: "h100:8"}, []string{"h100"}},
		{"in --gpus-per-task", slurm.Options{GPUsPerTask: "h100"}, []string{"h100"}},
		{"a slice", slurm.Options{GRES: "gpu:a100_1g.5gb:1"}, []string{"a100-mig-1g.5gb"}},
		{"a site's type", slurm.Options{GRES: "gpu:nvidia_a:1"}, []string{"a100-80gb"}},
		{"a type that nobody knows", slurm.Options{GRES: "gpu:gtx9000:1"}, []string{"gtx9000"}},
		{"a number, and a feature", slurm.Options{GPUs: "2", Constraint: "[a100*2|v100]&ib"}, []string{"a100", "v100"}},
		{"a card or a feature that nobody knows", slurm.Options{GPUs: "1", Constraint: "a100|bigmem"}, nil},
		{"racks and a card", slurm.Options{GPUs: "1", Constraint: "[rack1|rack2]&a100"}, []string{"a100"}},
		{"a site's feature", slurm.Options{GRES: "gpu:1", Constraint: "ib&vram12g"}, []string{"rtx-4070", "rtx-3060"}},
		{"a partition", slurm.Options{GRES: "gpu:1", Partition: "gpu"}, []string{"rtx-4070"}},
		{"one of two partitions", slurm.Options{GRES: "gpu:1", Partition: "gpu,big"}, []string{"rtx-4070", "h100", "h200"}},
		{"a partition that the site does not tell of", slurm.Options{GRES: "gpu:1", Partition: "gpu,new"}, nil},
		{"types in two options", slurm.Options{GRES: "gpu:a100:1", GPUs: "h100:2"}, []string{"a100", "h100"}},
		{"none, and a partition", slurm.Options{GRES: "none", Partition: "gpu"}, nil},
		{"a count of zero", slurm.Options{GRES: "gpu:a100:0"}, nil},
		{"a count of zero without a type", slurm.Options{GPUs: "0", Partition: "gpu"}, nil},
		{"zero of one and one of another", slurm.Options{GRES: "gpu:a100:0,gpu:v100:1"}, []string{"v100"}},
		{"none a node, and some in all", slurm.Options{GRES: "none", GPUs: "h100:1"}, []string{"h100"}},
		{"nothing", slurm.Options{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, site.Cards(tt.options, known)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
