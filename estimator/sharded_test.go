package estimator

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
)

func shardedNanoGPT(gpus int64) Job {
	job := dataParallelJob(gpus)
	job.Training.Distributed.Data = "fsdp"
	return job
}

// TestShardsAreParts deals a job out to more and more GPUs: weights, gradients and states shrink, and what a layer
// needs to run does not.
func TestShardsAreParts(t *testing.T) {
	whole := mustEstimate(t, Input{Job: dataParallelJob(0)})
	last := whole
	for _, gpus := range []int64{2, 4, 8, 64} {
		res := mustEstimate(t, Input{Job: shardedNanoGPT(gpus)})
		for _, name := range []string{"optimizer_state"} {
			if got, limit := component(res, name).Bytes, component(whole, name).Bytes/gpus+20*3*512; got > limit {
				t.Errorf("%d GPUs: %s takes %d bytes, more than a part, %d", gpus, name, got, limit)
			}
		}
		if res.Peak.AllocatedBytes >= last.Peak.AllocatedBytes {
			t.Errorf("%d GPUs: %d bytes allocated, not less than %d with fewer", gpus, res.Peak.AllocatedBytes,
				last.Peak.AllocatedBytes)
		}
		sum := int64(0)
		for _, c := range res.Components {
			sum += c.Bytes
		}
		if sum != res.Peak.DeviceBytes {
			t.Errorf("%d GPUs: the components add up to %d, the device figure is %d", gpus, sum, res.Peak.DeviceBytes)
		}
		if !slices.ContainsFunc(res.Notes, func(n Note) bool {
			return n.Code == "sharded" && strings.Contains(n.Text, "FSDP")
		}) {
			t.Errorf("%d GPUs: no note says what was assumed", gpus)
		}
		if !slices.ContainsFunc(res.Doubts, func(d DoubtSource) bool { return d.Source == "sharding" }) {
			t.Errorf("%d GPUs: the bounds are no wider for it", gpus)
		}
		last = res
	}
}

// TestOneGPUShardsNothing holds a job on one GPU against the same without distributed.
func TestOneGPUShardsNothing(t *testing.T) {
	one := mustEstimate(t, Input{Job: shardedNanoGPT(1)})
	none := mustEstimate(t, Input{Job: dataParallelJob(0)})
	if one.Peak != none.Peak && one.Peak.DeviceBytes != none.Peak.DeviceBytes {
		t.Errorf("one GPU takes %d bytes, without distributed %d", one.Peak.DeviceBytes, none.Peak.DeviceBytes)
	}
}

// TestManyGPUsDoNotOverflow deals a large model out to as many GPUs as may be given: every row is rounded up to one for
// each.
func TestManyGPUsDoNotOverflow(t *testing.T) {
	job := llama70BJob()
	job.Training.Distributed = &Distributed{WorldSize: 1 << 20, Data: "fsdp"}
	res := mustEstimate(t, Input{Job: job})
	for _, c := range res.Components {
		if c.Bytes < 0 {
			t.Errorf("%s takes %d bytes", c.Name, c.Bytes)
		}
	}
}

// TestWholeGradients accumulates gradients whole and in parts: whole ones are those of the model, parts a share of
// them.
func TestWholeGradients(t *testing.T) {
	for _, version := range []int64{1, 2} {
		gradients := map[bool]int64{}
		for _, whole := range []bool{true, false} {
			job := shardedNanoGPT(8)
			job.Training.GradientAccumulation = 4
			job.Training.Distributed.FSDPVersion, job.Training.Distributed.NoSync = version, &whole
			res := mustEstimate(t, Input{Job: job})
			c := component(res, "gradients")
			gradients[whole] = c.Bytes
			if says := strings.Contains(c.How, "accumulated until the last micro-step"); says != whole {
				t.Errorf("FSDP%d, no_sync %t: gradients are %q", version, whole, c.How)
			}
			if note := slices.ContainsFunc(res.Notes, func(n Note) bool {
				return n.Code == "whole-gradients"
			}); note != whole {
				t.Errorf("FSDP%d, no_sync %t: a note about whole gradients: %t", version, whole, note)
			}
			if m := res.Peak.MicroStep; m != nil && *m > 3 {
				t.Errorf("FSDP%d: the peak is in micro-step %d of four", version, *m)
			}
		}
		if gradients[true] < 2*gradients[false] {
			t.Errorf("FSDP%d: whole gradients take %d bytes, parts %d", version, gradients[true], gradients[false])
		}
	}
}

// TestEveryPresetSharded deals every preset out that can be dealt out: what one GPU holds is a share of the model, and
// the components add up.
func TestEveryPresetSharded(t *testing.T) {
	data, err := os.ReadFile("../migrations/data/models.json")
	if err != nil {
		t.Fatal(err)
	}
	var presets []model.Preset
	if err := json.Unmarshal(data, &presets); err != nil {
		t.Fatal(err)
	}
	answered := 0
	for i := range presets {
		for _, version := range []int64{1, 2} {
			job := Job{
				Model: Model{Preset: presets[i].ID},
				Training: Training{MicroBatch: 1, SequenceLength: 64, Precision: PrecisionBF16,
					Distributed: &Distributed{WorldSize: 8, Data: "fsdp", FSDPVersion: version}},
			}
			res, err := Judge(Input{Job: job, Preset: &presets[i]})
			if _, refused := errors.AsType[*invalid.Error](err); refused {
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", presets[i].ID, err)
			}
			answered++
			sum := int64(0)
			for _, c := range res.Components {
				sum += c.Bytes
				if c.Bytes < 0 {
					t.Errorf("%s, FSDP%d: %s takes %d bytes", presets[i].ID, version, c.Name, c.Bytes)
				}
			}
			if sum != res.Peak.DeviceBytes {
				t.Errorf("%s, FSDP%d: the components add up to %d, the device figure is %d", presets[i].ID, version,
					sum, res.Peak.DeviceBytes)
			}
		}
	}
	if answered < 200 {
		t.Errorf("%d answers, fewer than the catalog has decoders for", answered)
	}
}

// adaptedLlama is a small Llama with adapters on all its linear layers, dealt out by FSDP2.
func adaptedLlama(change func(*Training)) Job {
	job := dataParallelJob(8)
	job.Model = Model{HFConfig: []byte(`{"model_type":"llama","hidden_size":256,"intermediate_size":688,"num_hidden_layers":4,"num_attention_heads":4,"vocab_size":5000}`)}
	job.Training.Distributed.Data, job.Training.Distributed.FSDPVersion = "fsdp", 2
	job.Training.Precision, job.Training.Framework = PrecisionBF16, "pytorch"
	job.Training.LoRA = &LoRA{Rank: 8, TargetModules: Targets{"all-linear"}, BasePrecision: "bf16"}
	if change != nil {
		change(&job.Training)
	}
	return job
}

// TestShardedAdapters deals a model with adapters out: of the frozen base each GPU holds a part too, and only the
// adapters have gradients and states, in the type in which they are stored.
func TestShardedAdapters(t *testing.T) {
	whole := mustEstimate(t, Input{Job: adaptedLlama(func(u *Training) { u.Distributed = nil })})
	for _, tt := range []struct {
		name   string
		change func(*Training)
		state  int64 // bytes of a moment
		words  string
	}{
		{"adapters in float32", nil, 4, "frozen weights are stored in bf16 and gathered in bf16, adapters " +
			"in fp32 and fp32"},
		{"adapters in half", func(u *Training) { u.LoRA.AdapterDtype = "bf16" }, 2, "adapters in bf16 and bf16"},
		{"accelerate", func(u *Training) {
			u.Precision, u.Framework = PrecisionAMPBF16, "hf-trainer"
		}, 4, "adapters in fp32 and bf16"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := mustEstimate(t, Input{Job: adaptedLlama(tt.change)})
			part := res.Model.TrainableParameters / 8
			if got := component(res, "optimizer_state").Bytes; got < 2*tt.state*part ||
				got > 2*(2*tt.state*part+4*7*2*4*512) {
				t.Errorf("%d bytes of optimizer state for a part of %d elements", got, part)
			}
			if got, was := component(res, "weights").Bytes, component(whole, "weights").Bytes; got >= was {
				t.Errorf("weights take %d bytes on one of eight GPUs, %d on one", got, was)
			}
			if !slices.ContainsFunc(res.Notes, func(n Note) bool {
				return n.Code == "sharded" && strings.Contains(n.Text, tt.words)
			}) {
				t.Errorf("no note says %q in %v", tt.words, res.Notes)
			}
			if how := component(res, "weights").How; !strings.Contains(how, "frozen parameters") {
				t.Errorf("weights are %q", how)
			}
		})
	}
}

// TestShardedAdaptersRefused names what is not modelled together with adapters under FSDP.
func TestShardedAdaptersRefused(t *testing.T) {
	for pointer, change := range map[string]func(*Training){
		"/training/lora/base_precision":  func(u *Training) { u.LoRA.BasePrecision = "int8" },
		"/training/lora/dora":            func(u *Training) { u.LoRA.DoRA = true },
		"/training/lora/modules_to_save": func(u *Training) { u.LoRA.ModulesToSave = []string{"lm_head"} },
		"/training/states/weights":       func(u *Training) { u.States = &States{Weights: "fp32"} },
	} {
		_, err := Estimate(Input{Job: adaptedLlama(change)})
		wrong, ok := errors.AsType[*invalid.Error](err)
		if !ok || len(wrong.Fields) != 1 || wrong.Fields[0].Pointer != pointer {
			t.Errorf("%s: %v", pointer, err)
		}
	}
}

// TestPackedWeightsAreDealtOut: of a base in nf4 or GPTQ, packed weights are dealt out and gathered as they are, and
// scales stay whole.
func TestPackedWeightsAreDealtOut(t *testing.T) {
	weights := func(change func(*Training)) int64 {
		return component(mustEstimate(t, Input{Job: adaptedLlama(change)}), "weights").Bytes
	}
	for _, version := range []int64{1, 2} {
		on := func(base string, gpus int64) int64 {
			return weights(func(u *Training) {
				u.LoRA.BasePrecision, u.Distributed.WorldSize, u.Distributed.FSDPVersion = base, gpus, version
			})
		}
		for _, base := range []string{"nf4", "gptq-int4"} {
			if few, many := on(base, 4), on(base, 64); many >= few {
				t.Errorf("FSDP%d, %s: %d bytes of weights on one of 64 GPUs, %d on one of 4", version, base, many, few)
			}
			if packed, half := on(base, 8), on("bf16", 8); packed >= half {
				t.Errorf("FSDP%d: %d bytes of weights in %s, %d in bf16", version, packed, base, half)
			}
		}
	}
}

// TestFrozenWrappersKeepInputs: releases of transformers that run FSDP1's wrapper again keep an input and its gradient
// for each layer.
func TestFrozenWrappersKeepInputs(t *testing.T) {
	with := func(transformers string, version int64) *Result {
		return mustEstimate(t, Input{Job: adaptedLlama(func(u *Training) {
			u.Framework, u.GradientCheckpointing, u.Distributed.FSDPVersion = "hf-trainer",
				&Checkpointing{Mode: "full"}, version
			u.Versions = map[string]string{"transformers": transformers}
		})})
	}
	before, after := with("4.48.1", 1), with("4.57.6", 1)
	if before.Peak.AllocatedBytes <= after.Peak.AllocatedBytes {
		t.Errorf("%d bytes with transformers 4.48, %d with 4.57", before.Peak.AllocatedBytes, after.Peak.AllocatedBytes)
	}
	if !slices.ContainsFunc(before.Notes, func(n Note) bool {
		return strings.Contains(n.Text, "run FSDP1's wrapper")
	}) {
		t.Errorf("no note names the change in %v", before.Notes)
	}
	if a, b := with("4.48.1", 2).Peak.AllocatedBytes, with("4.57.6", 2).Peak.AllocatedBytes; a < b {
		t.Errorf("FSDP2 holds %d bytes with transformers 4.48, %d with 4.57", a, b)
	}
}
