package estimator

import (
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/resolve"
)

// TestKindOfCheckpoints: the job says whether checkpoints are reentrant, or else its framework, or else its releases.
func TestKindOfCheckpoints(t *testing.T) {
	yes, no := true, false
	newer, older := map[string]string{"transformers": "5.23.0", "torch": "2.15.0"}, formerStack
	for _, c := range []struct {
		name   string
		change func(*Training)
		want   bool
	}{
		{"transformers 4.57", func(u *Training) { u.Versions = older }, true},
		{"transformers 5", func(u *Training) { u.Versions = newer }, false},
		{"today's releases", func(*Training) {}, false},
		{"transformers 5, asked for", func(u *Training) {
			u.Versions, u.GradientCheckpointing.Reentrant = newer, &yes
		}, true},
		{"transformers 4.57, asked for", func(u *Training) {
			u.Versions, u.GradientCheckpointing.Reentrant = older, &no
		}, false},
		{"Unsloth's offloading", func(u *Training) { u.Versions, u.GradientCheckpointing.Offload = newer, true }, true},
		{"axolotl", func(u *Training) { u.Versions, u.Framework = older, "axolotl" }, false},
		{"LLaMA-Factory", func(u *Training) { u.Versions, u.Framework = newer, "llama-factory" }, true},
		{"LLaMA-Factory under FSDP2", func(u *Training) {
			u.Versions, u.Framework, u.Distributed = newer, "llama-factory",
				&Distributed{WorldSize: 2, Data: "fsdp", FSDPVersion: 2}
		}, false},
		{"torchtitan", func(u *Training) { u.Versions, u.Framework = older, "torchtitan" }, false},
		{"trl before it chose", func(u *Training) {
			u.Framework, u.Versions = "trl", map[string]string{"transformers": "4.57.6", "trl": "0.27.0"}
		}, true},
		{"trl since it chooses", func(u *Training) {
			u.Framework, u.Versions = "trl", map[string]string{"transformers": "4.57.6", "trl": "0.28.0"}
		}, false},
		{"trl with adapters under ZeRO-3", func(u *Training) {
			u.Framework, u.Versions, u.LoRA = "trl", newer, &LoRA{Rank: 8}
			u.Distributed = &Distributed{WorldSize: 2, Data: "zero3"}
		}, true},
	} {
		job := Job{Model: Model{HFConfig: []byte(`{"model_type": "llama", "num_hidden_layers": 2}`)},
			Training: Training{MicroBatch: 1, SequenceLength: 128, GradientCheckpointing: &Checkpointing{Mode: "full"}}}
		c.change(&job.Training)
		r, err := resolve.Resolve(&Input{Job: job})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if r.Recipe.Reentrant != c.want {
			t.Errorf("%s: reentrant is %v", c.name, r.Recipe.Reentrant)
		}
		said := false
		for _, change := range release.Changes() {
			named := change.ID() == frameworks.CheckpointsWithout || change.ID() == frameworks.CheckpointsWithoutInTRL
			for _, what := range r.Changes {
				said = said || named && what == change.What
			}
		}
		if byRelease := r.ReentranceBy != ""; said && !byRelease {
			t.Errorf("%s: the releases are said to have decided, and did not", c.name)
		}
	}
}

// TestKindThatFails refuses kinds that fail, and names the field.
func TestKindThatFails(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name, config string
		checkpoints  Checkpointing
		compile      bool
		says         string
	}{
		{"Whisper", `{"model_type": "whisper"}`, Checkpointing{Mode: "full", Reentrant: &yes}, false,
			"once for each layer"},
		{"DeBERTa-v3", `{"model_type": "deberta-v2", "relative_attention": true, "pos_att_type": ["p2c"]}`,
			Checkpointing{Mode: "full", Reentrant: &yes}, false, "autograd refuses"},
		{"offloading", `{"model_type": "llama"}`, Checkpointing{Offload: true, Reentrant: &no}, false, "Unsloth"},
		{"compiled", `{"model_type": "llama"}`, Checkpointing{Reentrant: &yes}, true, "torch.compile"},
		{"no checkpoints", `{"model_type": "llama"}`, Checkpointing{Mode: "none", Reentrant: &yes}, false,
			"go with the mode full"},
	} {
		job := Job{Model: Model{HFConfig: []byte(c.config)}, Training: Training{MicroBatch: 1, SequenceLength: 64,
			GradientCheckpointing: &c.checkpoints}}
		if c.compile {
			job.Training.Compile = &Compile{Model: true}
		}
		_, err := Estimate(Input{Job: job})
		if err == nil || !strings.Contains(err.Error(), "/training/gradient_checkpointing") ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
