package slurm

import "testing"

// FuzzOptions reads requests for GPUs: a job that asks for some does not ask for none.
func FuzzOptions(f *testing.F) {
	f.Add("gres:gpu:a100_1g.5gb:2,shard:4", "vramplan:override=x")
	f.Add("none", "")
	f.Add("gpu:a100:0", "")
	f.Fuzz(func(t *testing.T, gres, comment string) {
		o := Options{GRES: gres, Comment: comment}
		if n := GPUCount(gres); n < 0 || n > 0 && (!o.Asked() || o.NoGPU()) {
			t.Errorf("%q is for %d GPUs, asked %v, none %v", gres, n, o.Asked(), o.NoGPU())
		}
		if len(o.Types()) > 0 && o.NoGPU() {
			t.Errorf("%q names %q and asks for no GPU", gres, o.Types())
		}
		_ = o.Override()
	})
}

// FuzzScript reads scripts: each option stands in its own line, and the components follow each other.
func FuzzScript(f *testing.F) {
	f.Add("#!/bin/sh\n#SBATCH --gres=gpu:1 -p x # why\n#SBATCH hetjob\n#SBATCH -n 4 --gres gpu:a100:2\ntrue\n#SBATCH -N 9")
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		for _, c := range Script([]byte(text)) {
			for _, w := range c {
				if w.Line < last || w.Start < 0 || w.Start >= len(text) || w.Name == "" {
					t.Fatalf("%+v behind line %d", w, last)
				}
				last = w.Line
			}
			c.Options()
		}
	})
}
