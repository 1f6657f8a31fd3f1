package estimator

import (
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/model/rewritten"
)

// pipelineJob is a small Llama in torchtitan on two GPUs, one a stage, with eight micro-batches.
func pipelineJob() Job {
	job := titanJob(2, 1)
	job.Training.Distributed.PipelineParallel = 2
	job.Training.GradientAccumulation = 8
	return job
}

// TestStagesOfAPipeline holds the answer for a job that names no stage to that for the fullest.
func TestStagesOfAPipeline(t *testing.T) {
	stage := func(s Stage) *Result {
		job := pipelineJob()
		job.Training.Distributed.PipelineStage = &s
		return mustEstimate(t, Input{Job: job})
	}
	first, last, any := stage(0), stage(1), mustEstimate(t, Input{Job: pipelineJob()})
	if last.Peak.DeviceBytes <= first.Peak.DeviceBytes {
		t.Errorf("the last stage, with the logits of eight micro-batches, takes %d bytes, the first %d",
			last.Peak.DeviceBytes, first.Peak.DeviceBytes)
	}
	if any.Peak.DeviceBytes != last.Peak.DeviceBytes || any.Peak.AllocatedBytes != last.Peak.AllocatedBytes {
		t.Errorf("without a stage %+v, want those of the last, %+v", any.Peak, last.Peak)
	}
	i := slices.IndexFunc(any.Notes, func(n Note) bool { return n.Code == "pipeline-stages" })
	if i < 0 || !strings.Contains(any.Notes[i].Text, "stage 0") || !strings.Contains(any.Notes[i].Text, "stage 1") {
		t.Errorf("no note lists the stages: %+v", any.Notes)
	}
	if r := any.Ranks; len(r) != 2 || r[0].AllocatedBytes != first.Peak.AllocatedBytes || r[0].Fullest ||
		r[1].DeviceBytes != last.Peak.DeviceBytes || !r[1].Fullest || r[1].Rank != 1 || r[1].Where != "stage 1 of 2" {
		t.Errorf("the ranks are %+v", r)
	}
	if first.Ranks != nil {
		t.Errorf("a job that names a stage has the ranks %+v", first.Ranks)
	}
	if any.Model.Parameters != first.Model.Parameters {
		t.Errorf("a model of %d parameters has %d by its first stage", any.Model.Parameters, first.Model.Parameters)
	}
	all := pipelineJob()
	all.Training.Distributed.PipelineSchedule = "gpipe"
	zero := int64(0)
	all.Training.Distributed.Rank = &zero
	if got := mustEstimate(t, Input{Job: all}).Peak.AllocatedBytes; got <= first.Peak.AllocatedBytes {
		t.Errorf("GPipe holds %d bytes of eight micro-batches, 1F1B %d of two", got, first.Peak.AllocatedBytes)
	}
}

// TestEveryStage holds the row of each stage to the answer for a job that names it, and the answer to that for the
// fullest, the smallest limit with it.
func TestEveryStage(t *testing.T) {
	job := titanJob(12, 2)
	job.Training.Distributed.PipelineParallel, job.Training.GradientAccumulation = 3, 6
	card := []GPU{{ID: "one", UsableBytes: 1 << 30, ComputeCapability: 90, Multiprocessors: 132}}
	any := mustEstimate(t, Input{Job: job, GPUs: card})
	if len(any.Ranks) != 3 {
		t.Fatalf("three stages have the rows %+v", any.Ranks)
	}
	for s, row := range any.Ranks {
		stage := Stage(s)
		job.Training.Distributed.PipelineStage = &stage
		one := mustEstimate(t, Input{Job: job, GPUs: card})
		if row.DeviceBytes != one.Peak.DeviceBytes || row.ReservedBytes != one.Peak.ReservedBytes ||
			row.AllocatedBytes != one.Peak.AllocatedBytes || row.HighBytes != one.Peak.HighBytes ||
			row.LowBytes > one.Peak.LowBytes {
			t.Errorf("stage %d has the row %+v, and by itself %+v", s, row, one.Peak)
		}
		if row.Fullest && one.Peak.MinimumLimitBytes != any.Peak.MinimumLimitBytes {
			t.Errorf("the fullest, %d, has %+v, and by itself %+v", s, any.Peak, one.Peak)
		}
	}
}

// TestStageLayers holds the layers of stages to torchtitan's.
func TestStageLayers(t *testing.T) {
	for _, tt := range []struct {
		layers, stages int64
		want           []int64
	}{{16, 2, []int64{8, 8}}, {16, 4, []int64{4, 5, 4, 3}}, {32, 4, []int64{8, 9, 8, 7}}, {4, 2, []int64{2, 2}},
		{3, 6, nil}} {
		if got := rewritten.StageLayers(tt.layers, tt.stages); !slices.Equal(got, tt.want) {
			t.Errorf("%d layers on %d stages are dealt out as %d, want %d", tt.layers, tt.stages, got, tt.want)
		}
	}
}

// TestPipelineRefuses lists what is not modelled in a pipeline.
func TestPipelineRefuses(t *testing.T) {
	far := int64(2)
	tests := []struct {
		name   string
		change func(*Training)
		want   []string
	}{
		{"nothing", func(*Training) {}, nil},
		{"another framework", func(u *Training) {
			u.Framework, u.States = "pytorch", nil
		}, []string{"/training/distributed/pipeline_parallel"}},
		{"zero bubble", func(u *Training) {
			u.Distributed.PipelineSchedule = "zb-v"
		}, nil},
		{"zero bubble with checkpoints", func(u *Training) {
			u.Distributed.PipelineSchedule, u.GradientCheckpointing = "zb-v", &Checkpointing{Mode: "full"}
		}, []string{"/training/gradient_checkpointing"}},
		{"interleaved", func(u *Training) {
			u.Distributed.PipelineSchedule = "Interleaved1F1B"
		}, nil},
		{"interleaved over GPUs that share parameters", func(u *Training) {
			u.Distributed.WorldSize, u.Distributed.PipelineSchedule = 4, "interleaved-1f1b"
		}, nil},
		{"interleaved with one stage a GPU", func(u *Training) {
			u.Distributed.PipelineSchedule, u.Distributed.VirtualPipeline = "interleaved-1f1b", 1
		}, []string{"/training/distributed/virtual_pipeline"}},
		{"several stages a GPU in 1F1B", func(u *Training) {
			u.Distributed.VirtualPipeline = 2
		}, []string{"/training/distributed/virtual_pipeline"}},
		{"micro-batches that make no rounds", func(u *Training) {
			u.Distributed.PipelineSchedule, u.GradientAccumulation = "interleaved-1f1b", 7
		}, []string{"/training/gradient_accumulation"}},
		{"more stages than layers, interleaved", func(u *Training) {
			u.Distributed.PipelineSchedule, u.Distributed.VirtualPipeline = "interleaved-1f1b", 1<<20
		}, []string{"/training/distributed/pipeline_parallel"}},
		{"with FSDP", func(u *Training) { u.Distributed.WorldSize = 4 }, nil},
		{"with FSDP and tensor parallelism", func(u *Training) {
			u.Distributed.WorldSize, u.Distributed.TensorParallel = 8, 2
		}, nil},
		{"with copies", func(u *Training) {
			u.Distributed.WorldSize, u.Distributed.Data, u.States = 4, "ddp", nil
		}, []string{"/training/distributed/data"}},
		{"with shared sequences", func(u *Training) {
			u.Distributed.WorldSize, u.Distributed.ContextParallel = 4, 2
		}, []string{"/training/distributed/context_parallel"}},
		{"letting go of parameters", func(u *Training) {
			yes := true
			u.Distributed.WorldSize, u.Distributed.ReshardAfterForward = 4, &yes
		}, []string{"/training/distributed/reshard_after_forward"}},
		{"a rank of another stage", func(u *Training) {
			zero, two := Stage(0), int64(2)
			u.Distributed.WorldSize, u.Distributed.PipelineStage, u.Distributed.Rank = 4, &zero, &two
		}, []string{"/training/distributed/rank"}},
		{"a stage that is not there", func(u *Training) {
			stage := Stage(far)
			u.Distributed.PipelineStage = &stage
		}, []string{"/training/distributed/pipeline_stage"}},
		{"a rank that is not there", func(u *Training) {
			u.Distributed.Rank = &far
		}, []string{"/training/distributed/rank"}},
		{"more stages than layers", func(u *Training) {
			u.Distributed.WorldSize, u.Distributed.PipelineParallel = 8, 8
		}, []string{"/training/distributed/pipeline_parallel"}},
		{"too many micro-batches", func(u *Training) {
			u.GradientAccumulation = 1 << 20
		}, []string{"/training/gradient_accumulation"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job := pipelineJob()
			tt.change(&job.Training)
			_, err := Estimate(Input{Job: job})
			if got := refusedPointers(err); !slices.Equal(got, tt.want) {
				t.Errorf("refused %q, want %q: %v", got, tt.want, err)
			}
		})
	}
}
