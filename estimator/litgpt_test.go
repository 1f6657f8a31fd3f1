package estimator

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// tracedRun is a job and the bytes that were allocated at its peak.
type tracedRun struct {
	ID    string
	Job   Job
	Truth struct {
		Allocated float64 `json:"allocated_bytes"`
	}
}

// tracedRuns are those of a file, one a line, of which there are so many.
func tracedRuns(t *testing.T, path string, count int) []tracedRun {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != count {
		t.Fatalf("%d runs in %s, %d are expected", len(lines), path, count)
	}
	runs := make([]tracedRun, count)
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &runs[i]); err != nil {
			t.Fatal(err)
		}
	}
	return runs
}

// TestLitGPT holds the replay of litgpt's own classes against litgpt 0.5.13 itself under Lightning's Fabric, run by
// oracle/litgpt_trace.py: Llama, Qwen2, Phi, Phi-3, Gemma and GPT-NeoX, in full, with adapters and on nf4. What is
// alive at the peak is the same, tensor by tensor; the tenths of a per cent are blocks that the allocator rounds up, in
// an order of frees that is not replayed exactly.
func TestLitGPT(t *testing.T) {
	holdLitGPT(t, "testdata/litgpt.jsonl", 17, func(tracedRun) float64 { return 0.005 })
}

// TestPublishedLitGPT holds it against what litgpt 0.4's own table says of runs on a card. litgpt 0.4.13 over the
// stand-in driver allocates 2.6 % more than the table has for TinyLlama in full, too; why is not known.
func TestPublishedLitGPT(t *testing.T) {
	holdLitGPT(t, "testdata/litgpt-published.jsonl", 16, func(run tracedRun) float64 {
		if run.ID == "litgpt-hub-tiny-llama-full" {
			return 0.026
		}
		return 0.002
	})
}

// TestLitGPTShardsAdapters holds blocks whose base and adapters are one flat tensor against the table of litgpt's first
// releases. The replay takes 1 to 5 % more, with the batch; why is not known. In newer ones linear layers are wrapped
// one by one, which is refused.
func TestLitGPTShardsAdapters(t *testing.T) {
	text, err := os.ReadFile("accuracy/testdata/several/sharded.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var run struct {
			ID       string
			Job      Job
			Measured struct {
				Allocated float64 `json:"allocated_bytes"`
			}
		}
		if err := json.Unmarshal([]byte(line), &run); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(run.ID, "litgpt-lora-stablelm") {
			continue
		}
		runs++
		t.Run(run.ID, func(t *testing.T) {
			res := mustEstimate(t, Input{Job: run.Job, GPUs: []GPU{tracedGPUs["a100-sxm4-80gb"]}})
			if off := float64(res.Peak.AllocatedBytes)/run.Measured.Allocated - 1; math.Abs(off) > 0.055 {
				t.Errorf("%d bytes, published are %.0f: %+.2f %%", res.Peak.AllocatedBytes, run.Measured.Allocated, 100*off)
			}
			for field, change := range map[string]func(*Training){
				"lora":                func(u *Training) { u.Versions = map[string]string{"torch": "2.9.1"} },
				"lora/base_precision": func(u *Training) { u.LoRA.BasePrecision = "nf4" },
				"lora/target_modules": func(u *Training) { u.LoRA.TargetModules = []string{"q_proj", "lm_head"} },
				"lora/adapter_dtype":  func(u *Training) { u.LoRA.AdapterDtype = "fp32" },
				"precision":           func(u *Training) { u.Precision, u.LoRA.BasePrecision = PrecisionAMPBF16, "" },
			} {
				job := run.Job
				lora := *job.Training.LoRA
				job.Training.LoRA = &lora
				change(&job.Training)
				if _, err := Estimate(Input{Job: job}); err == nil || !strings.Contains(err.Error(), "/training/"+field+":") {
					t.Errorf("%s: %v", field, err)
				}
			}
		})
	}
	if runs != 3 {
		t.Errorf("%d runs", runs)
	}
}

func holdLitGPT(t *testing.T, path string, runs int, tolerance func(tracedRun) float64) {
	var all comparison
	for _, run := range tracedRuns(t, path, runs) {
		all.add(t, run.ID, func(t *testing.T) *difference {
			res := mustEstimate(t, Input{Job: run.Job, GPUs: []GPU{tracedGPUs["a100-sxm4-80gb"]}})
			if off := float64(res.Peak.AllocatedBytes)/run.Truth.Allocated - 1; math.Abs(off) > tolerance(run) {
				return &difference{"the peak", fmt.Sprintf("%d bytes, litgpt takes %.0f: %+.2f %%", res.Peak.AllocatedBytes,
					run.Truth.Allocated, 100*off)}
			}
			return nil
		})
	}
	all.end(t)
}

// TestLitGPTKnowsNoOther: what litgpt's classes do not do is said to change nothing.
func TestLitGPTKnowsNoOther(t *testing.T) {
	job := func(change func(*Training)) Job {
		job := Job{Training: Training{Framework: "litgpt", MicroBatch: 2, SequenceLength: 128,
			Precision: PrecisionBF16}}
		job.Model.HFConfig = json.RawMessage(llamaConfig)
		change(&job.Training)
		return job
	}
	plain := mustEstimate(t, Input{Job: job(func(*Training) {})})
	for field, change := range map[string]func(*Training){
		"attention":      func(u *Training) { u.Attention = "eager" },
		"attention_mask": func(u *Training) { u.AttentionMask = "explicit" },
		"kernels":        func(u *Training) { u.Kernels = []string{"rmsnorm", "rope", "swiglu"} },
	} {
		res := mustEstimate(t, Input{Job: job(change)})
		if res.Peak.AllocatedBytes != plain.Peak.AllocatedBytes {
			t.Errorf("%s: %d bytes, and %d without", field, res.Peak.AllocatedBytes, plain.Peak.AllocatedBytes)
		}
		if !slices.ContainsFunc(res.Notes, func(n Note) bool {
			return n.Code == "no-effect" && strings.HasPrefix(n.Text, field+" ")
		}) {
			t.Errorf("%s: no note in %+v", field, res.Notes)
		}
	}
}

// TestPackedInputs holds what bitsandbytes 0.42 keeps of a layer in nf4 until the graph goes: its input.
func TestPackedInputs(t *testing.T) {
	peak := func(version string) int64 {
		job := loraJob(llamaConfig, LoRA{Rank: 8, BasePrecision: "nf4"})
		job.Training.Versions = map[string]string{"bitsandbytes": version}
		res, err := Estimate(Input{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		return res.Peak.AllocatedBytes
	}
	if old, now := peak("0.42.0"), peak("0.48.2"); old <= now {
		t.Errorf("bitsandbytes 0.42 keeps inputs and takes %d bytes, 0.48 keeps none and takes %d", old, now)
	}
}
