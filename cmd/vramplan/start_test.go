package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkColdStart runs the program, from exec to exit. A hook runs it at every
// submission, so the whole should stay below 50 ms on two cores.
func BenchmarkColdStart(b *testing.B) {
	for b.Loop() {
		out, err := exec.Command("vramplan", "estimate", "--model", "gpt2", "--micro-batch", "4", "--gpu", "rtx-4090",
			"--json").CombinedOutput()
		if err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
}

// BenchmarkColdCheck runs check on a batch script, from exec to exit, as a hook does.
func BenchmarkColdCheck(b *testing.B) {
	script := filepath.Join(b.TempDir(), "job.sh")
	text := "#!/bin/bash\n#SBATCH --gres=gpu:rtx4090:1\n#VRAMPLAN model=gpt2 micro_batch=4\npython train.py\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		out, err := exec.Command("vramplan", "check", "--script", script).CombinedOutput()
		if err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
}

// BenchmarkBatch answers jobs on all cores; the command line remembers no answers.
func BenchmarkBatch(b *testing.B) {
	const jobs = 64
	input := strings.Repeat(`{"model": {"preset": "gpt2"}, "training": {"micro_batch": 4}, "gpus": ["rtx-4090"]}`+"\n",
		jobs)
	for b.Loop() {
		var out, problems strings.Builder
		if code := run(context.Background(), []string{"estimate", "-f", "-", "--json"}, strings.NewReader(input), &out,
			&problems, nil); code != exitOK {
			b.Fatalf("exit code %d: %s", code, problems.String())
		}
		if got := strings.Count(out.String(), "\n"); got != jobs {
			b.Fatalf("%d answers, want %d", got, jobs)
		}
	}
	b.ReportMetric(float64(jobs*b.N)/b.Elapsed().Seconds(), "jobs/s")
}
