package estimator

import (
	"slices"
	"testing"
)

// TestShardsLoadedInHalf: accelerate brings trained parameters to float32 under FSDP with mixed precision, in whichever
// type they were loaded; composer, older releases of accelerate and a job without mixed precision leave them.
func TestShardsLoadedInHalf(t *testing.T) {
	for name, c := range map[string]struct {
		framework, precision string
		version              int64
		accelerate           string
		wide                 bool
	}{
		"the Trainer under FSDP1":           {"hf-trainer", "amp-bf16", 1, "", true},
		"the Trainer under FSDP2":           {"hf-trainer", "amp-bf16", 2, "", true},
		"trl in float16":                    {"trl", "amp-fp16", 1, "", true},
		"accelerate alone":                  {"accelerate", "amp-bf16", 2, "", true},
		"accelerate before it did":          {"hf-trainer", "amp-bf16", 1, "0.29.3", false},
		"accelerate since":                  {"hf-trainer", "amp-bf16", 1, "0.30.0", true},
		"1.13 loses it under FSDP2":         {"hf-trainer", "amp-bf16", 2, "1.13.0", false},
		"and not under FSDP1":               {"hf-trainer", "amp-bf16", 1, "1.13.0", true},
		"without mixed precision":           {"hf-trainer", "bf16", 2, "", false},
		"composer has its own way of FSDP1": {"llm-foundry", "amp-bf16", 1, "", false},
	} {
		job := llama70BJob()
		job.Training.Framework, job.Training.Precision = c.framework, Precision(c.precision)
		job.Training.States = &States{Weights: "bf16"}
		if c.precision == "amp-fp16" {
			job.Training.States.Weights = "fp16"
		}
		job.Training.Distributed = &Distributed{WorldSize: 8, Data: "fsdp", FSDPVersion: c.version}
		if c.accelerate != "" {
			job.Training.Versions = map[string]string{"accelerate": c.accelerate}
		}
		res := mustEstimate(t, Input{Job: job})
		noted := slices.ContainsFunc(res.Notes, func(n Note) bool { return n.Code == "widened-shards" })
		if noted != c.wide {
			t.Errorf("%s: the note is there: %t", name, noted)
		}
		moment := int64(2)
		if c.wide {
			moment = 4
		}
		want := 2 * moment * res.Model.Parameters / 8
		if got := component(res, "optimizer_state").Bytes; got < want || got > want+want/100 {
			t.Errorf("%s: moments take %d bytes, not about %d", name, got, want)
		}
	}
}
