package document

import (
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/launch"
)

// Layouts are the ways to put a job on the GPUs of a cluster at the effective batch of the plan.
type Layouts struct {
	// GPUs is how many there are, and GPUsPerNode how many in each host.
	GPUs        int64 `json:"gpus"`
	GPUsPerNode int64 `json:"gpus_per_node"`
	// Ranked are those that fit, the fastest first. Each has been estimated: an estimate of the job with its changes
	// gives the same bytes.
	Ranked []Layout `json:"ranked"`
	// LeftOut are the others, with the reason: what fits and is beaten, what does not fit, what the estimator refuses,
	// and what cannot be faster than those ranked.
	LeftOut []LeftOutLayout `json:"left_out"`
	// Asked is how many candidates were estimated, each stage of a pipeline counted.
	Asked int `json:"asked"`
}

// Layout is one way to put a job on a cluster.
type Layout struct {
	Rank int    `json:"rank"`
	Name string `json:"name"`
	// Framework is the one that runs it.
	Framework string `json:"framework"`
	// DataParallelGPUs hold different sequences; the GPUs are the product of this and the next three. ExpertParallel
	// GPUs are among those of the others. ShardGroup is how many GPUs share one copy of weights, gradients or optimizer
	// state; 1 where nothing is dealt out.
	DataParallelGPUs int64 `json:"data_parallel_gpus"`
	TensorParallel   int64 `json:"tensor_parallel"`
	PipelineParallel int64 `json:"pipeline_parallel"`
	ContextParallel  int64 `json:"context_parallel"`
	ExpertParallel   int64 `json:"expert_parallel"`
	ShardGroup       int64 `json:"shard_group"`
	// GradientCheckpointing is its mode.
	GradientCheckpointing string `json:"gradient_checkpointing"`
	MicroBatch            int64  `json:"micro_batch"`
	GradientAccumulation  int64  `json:"gradient_accumulation"`
	// Changes are fields of the job's training object with their new values.
	Changes map[string]any `json:"changes"`

	// The bytes are those of the fullest GPU.
	DeviceBytes   int64             `json:"device_bytes"`
	HighBytes     int64             `json:"high_bytes"`
	HeadroomBytes int64             `json:"headroom_bytes"`
	Verdict       estimator.Verdict `json:"verdict"`

	// StepTime is how long an optimizer step takes.
	StepTime StepSeconds `json:"step_time"`
	// CommunicationShare is the expected share of the step in which computing waits for other GPUs, pipelines that fill
	// and drain among it.
	CommunicationShare float64 `json:"communication_share"`
	// TokensPerSecondPerGPU is what each GPU gets done at the expected time.
	TokensPerSecondPerGPU float64 `json:"tokens_per_second_per_gpu"`
	// Launch says the same in the launcher's own words.
	Launch launch.Words `json:"launch"`
}

// StepSeconds is the time of an optimizer step under three readings of what no data sheet says.
type StepSeconds struct {
	LowSeconds      float64 `json:"low_seconds"`
	ExpectedSeconds float64 `json:"expected_seconds"`
	HighSeconds     float64 `json:"high_seconds"`
	// Basis is "model": computed and not measured.
	Basis string `json:"basis"`
}

// LeftOutLayout is a layout, or several of a kind, that is not ranked.
type LeftOutLayout struct {
	// Name is that of the first of them, and Count how many there are.
	Name      string `json:"name"`
	Framework string `json:"framework"`
	Count     int    `json:"count"`
	// Code is beaten, tight (may fit), slower, not_asked (not looked at), does_not_fit, batch (the GPUs do not divide
	// the effective batch) or refused.
	Code   string `json:"code"`
	Reason string `json:"reason"`
}
