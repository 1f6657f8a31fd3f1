package readers_test

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/launch"
	"github.com/vramplan/vramplan/service/readers"
)

// What a plan prints to be pasted is, read back, the job that it was printed for.
func TestPrintedFilesReadBack(t *testing.T) {
	const sequence = 8192
	titan := estimator.Training{Precision: estimator.PrecisionBF16, Framework: "torchtitan",
		States:    &estimator.States{Weights: "fp32", Gradients: "fp32"},
		Optimizer: &estimator.Optimizer{Name: "adamw", Implementation: "fused"}}
	python := titan
	python.Versions = map[string]string{"torchtitan": "0.3.0"}
	megatron := estimator.Training{Precision: estimator.PrecisionBF16, Framework: "megatron",
		States: &estimator.States{MasterWeights: "fp32", Gradients: "fp32", Optimizer: "fp32"}}
	for _, tt := range []struct {
		name         string
		training     estimator.Training
		framework    string
		micro, accum int64
		mode         string
		d            estimator.Distributed
	}{
		{"FSDP2 of torchtitan", titan, "torchtitan", 2, 4, "full",
			estimator.Distributed{WorldSize: 64, Data: "fsdp", FSDPVersion: 2}},
		{"HSDP of torchtitan", titan, "torchtitan", 1, 2, "selective-op",
			estimator.Distributed{WorldSize: 64, Data: "fsdp", FSDPVersion: 2, ShardGroup: 16}},
		{"tensor parallel", titan, "torchtitan", 2, 4, "none",
			estimator.Distributed{WorldSize: 64, Data: "fsdp", FSDPVersion: 2, TensorParallel: 8}},
		{"experts", titan, "torchtitan", 1, 2, "full",
			estimator.Distributed{WorldSize: 64, Data: "fsdp", FSDPVersion: 2, ExpertParallel: 16}},
		{"experts in copies", titan, "torchtitan", 1, 1, "none",
			estimator.Distributed{WorldSize: 64, Data: "fsdp", FSDPVersion: 2, ShardGroup: 32, ExpertParallel: 8}},
		{"experts of GPUs that share layers", titan, "torchtitan", 1, 4, "full", estimator.Distributed{WorldSize: 64,
			Data: "fsdp", FSDPVersion: 2, TensorParallel: 4, ExpertParallel: 16}},
		{"experts in a pipeline", titan, "torchtitan", 1, 8, "full", estimator.Distributed{WorldSize: 64,
			Data: "fsdp", FSDPVersion: 2, PipelineParallel: 4, ExpertParallel: 8}},
		{"a function of Python", python, "torchtitan", 2, 4, "full", estimator.Distributed{WorldSize: 64,
			Data: "fsdp", FSDPVersion: 2, ShardGroup: 8, TensorParallel: 4}},
		{"a pipeline in Python", python, "torchtitan", 1, 8, "none", estimator.Distributed{WorldSize: 64,
			Data: "fsdp", FSDPVersion: 2, PipelineParallel: 4, ExpertParallel: 8}},
		{"again in part in Python", python, "torchtitan", 1, 2, "selective-op", estimator.Distributed{WorldSize: 64,
			Data: "fsdp", FSDPVersion: 2, ContextParallel: 2}},
		{"pipeline", titan, "torchtitan", 1, 8, "full", estimator.Distributed{WorldSize: 64, Data: "fsdp",
			FSDPVersion: 2, TensorParallel: 8, PipelineParallel: 4}},
		{"pipeline of larger micro-batches", titan, "torchtitan", 2, 8, "full", estimator.Distributed{WorldSize: 16,
			Data: "fsdp", FSDPVersion: 2, PipelineParallel: 8}},
		{"ZeRO-1 of Megatron", megatron, "megatron", 1, 16, "full",
			estimator.Distributed{WorldSize: 64, Data: "zero1", TensorParallel: 4, PipelineParallel: 4}},
		{"DDP of Megatron", megatron, "megatron", 2, 4, "none", estimator.Distributed{WorldSize: 64, Data: "ddp",
			TensorParallel: 8, SequenceParallel: true, ContextParallel: 2}},
		{"Megatron again in part", megatron, "megatron", 1, 8, "selective", estimator.Distributed{WorldSize: 16,
			Data: "zero1", TensorParallel: 8}},
		{"FSDP2 of accelerate", estimator.Training{}, "hf-trainer", 2, 4, "full",
			estimator.Distributed{WorldSize: 64, Data: "fsdp", FSDPVersion: 2}},
		{"HSDP of accelerate", estimator.Training{}, "hf-trainer", 1, 2, "full",
			estimator.Distributed{WorldSize: 64, Data: "fsdp", FSDPVersion: 2, ShardGroup: 8}},
		{"ZeRO-3", estimator.Training{}, "hf-trainer", 2, 4, "full",
			estimator.Distributed{WorldSize: 64, Data: "zero3"}},
		{"ZeRO-2", estimator.Training{}, "hf-trainer", 1, 16, "none",
			estimator.Distributed{WorldSize: 8, Data: "zero2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			job := tt.training
			job.MicroBatch, job.GradientAccumulation, job.Distributed = tt.micro, tt.accum, &tt.d
			job.GradientCheckpointing = &estimator.Checkpointing{Mode: tt.mode}
			share := max(tt.d.TensorParallel, 1) * max(tt.d.PipelineParallel, 1) * max(tt.d.ContextParallel, 1)
			w := launch.Of(launch.Job{Framework: tt.framework, Model: "meta-llama/Llama-3.1-70B", Training: job,
				Nodes: tt.d.WorldSize / 8, PerNode: 8, Data: tt.d.WorldSize / share, SequenceLength: sequence})
			answer, err := readers.Read(t.Context(), readers.Source{Line: w.Command, Dir: ".",
				ReadFile: func(name string) ([]byte, error) {
					for _, f := range w.Files {
						if f.Name == path.Base(name) {
							return []byte(f.Text), nil
						}
					}
					return nil, fs.ErrNotExist
				}})
			if err != nil {
				t.Fatal(err)
			}
			if len(answer.Jobs) != 1 || len(answer.Refusals) > 0 {
				t.Fatalf("%d jobs, refused: %+v\n%s", len(answer.Jobs), answer.Refusals, w.Command)
			}
			var got estimator.Job
			if err := json.Unmarshal(answer.Jobs[0].Document, &got); err != nil {
				t.Fatal(err)
			}
			for _, q := range answer.Jobs[0].Questions { // of the program and the model, which a layout does not decide
				if strings.HasPrefix(q.Pointer, "/training/distributed") {
					t.Errorf("asks %s: %s (%s)", q.Pointer, q.Ask, q.Why)
				}
			}
			r := got.Training
			d := estimator.Distributed{}
			if r.Distributed != nil {
				d = *r.Distributed
			}
			if r.MicroBatch != tt.micro || max(r.GradientAccumulation, 1) != tt.accum {
				t.Errorf("%d × %d, printed for %d × %d", r.MicroBatch, r.GradientAccumulation, tt.micro, tt.accum)
			}
			type layout struct {
				data                                                    string
				world, version, tensor, stages, context, experts, group int64
			}
			of := func(d estimator.Distributed) layout {
				return layout{d.Data, d.WorldSize, d.FSDPVersion, max(d.TensorParallel, 1), max(d.PipelineParallel, 1),
					max(d.ContextParallel, 1), max(d.ExpertParallel, 1), d.ShardGroup}
			}
			if of(d) != of(tt.d) {
				t.Errorf("read %+v, printed for %+v", of(d), of(tt.d))
			}
			mode := "none"
			if c := r.GradientCheckpointing; c != nil {
				mode = cmp.Or(c.Mode, mode)
			}
			if mode != tt.mode {
				t.Errorf("checkpointing %s, printed for %s", mode, tt.mode)
			}
			if tt.framework == "megatron" && (r.SequenceLength != sequence || r.Precision != tt.training.Precision ||
				r.States == nil || *r.States != *tt.training.States || d.SequenceParallel != tt.d.SequenceParallel) {
				t.Errorf("sequences of %d, %s, %+v, %+v", r.SequenceLength, r.Precision, r.States, d)
			}
			if tt.framework == "torchtitan" && (r.SequenceLength != sequence || r.Optimizer == nil ||
				r.Optimizer.Implementation != "fused" || r.Precision != estimator.PrecisionBF16) {
				t.Errorf("sequences of %d, %+v, %s", r.SequenceLength, r.Optimizer, r.Precision)
			}
		})
	}
}
