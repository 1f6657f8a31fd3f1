package estimator

import (
	"bytes"
	"encoding/json"

	"github.com/vramplan/vramplan/estimator/model"
)

// Job is one training job: a model, how it is trained and where it should run.
// It is the document that every entrance of vramplan takes.
//
// The zero value of an optional field means "the default"; pointers are used
// where zero, false or an empty object would mean something else.
type Job struct {
	Model    Model    `json:"model"`
	Training Training `json:"training"`

	// GPUs names the cards to judge: catalog ids, aliases, driver names, "*"
	// for the whole catalog, or a card given by its memory.
	GPUs []GPURef `json:"gpus,omitempty" validate:"omitempty,max=512,dive"`
	// ReserveBytes is what other processes or a display hold on the card.
	ReserveBytes int64 `json:"reserve_bytes,omitempty" validate:"gte=0,lte=9007199254740991"`
	// Confidence is the share of runs that low_bytes…high_bytes should cover; 0.95 where it is left out.
	Confidence float64 `json:"confidence,omitempty" validate:"omitempty,gte=0.5,lte=0.999"`
}

// Model says what is trained. Exactly one of Preset, HFConfig, NanoGPT and
// Dimensions is given.
type Model struct {
	Preset     string            `json:"preset,omitempty" validate:"omitempty,max=200"`
	HFConfig   json.RawMessage   `json:"hf_config,omitempty"`
	NanoGPT    *model.NanoGPT    `json:"nanogpt,omitempty"`
	Dimensions *model.Dimensions `json:"dimensions,omitempty"`
	Head       *model.Head       `json:"head,omitempty"`
}

// Training says how the model is trained.
type Training struct {
	// MicroBatch is the number of sequences in one forward pass on one GPU.
	MicroBatch int64 `json:"micro_batch,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// SequenceLength is in tokens; the model's context where it is left out.
	SequenceLength int64 `json:"sequence_length,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// TargetSequenceLength is the decoder's length in an encoder-decoder model.
	TargetSequenceLength int64 `json:"target_sequence_length,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// GradientAccumulation is the number of micro-steps in an optimizer step; 1 where it is left out.
	GradientAccumulation int64 `json:"gradient_accumulation,omitempty" validate:"omitempty,gte=1,lte=1073741824"`

	Precision             Precision         `json:"precision,omitempty" validate:"omitempty,oneof=amp-bf16 amp-fp16 fp32 tf32 bf16 fp16 fp8"`
	FP8                   *FP8              `json:"fp8,omitempty"`
	States                *States           `json:"states,omitempty"`
	Optimizer             *Optimizer        `json:"optimizer,omitempty"`
	GradientCheckpointing *Checkpointing    `json:"gradient_checkpointing,omitempty"`
	Attention             string            `json:"attention,omitempty" validate:"omitempty,oneof=sdpa flash eager"`
	AttentionMask         string            `json:"attention_mask,omitempty" validate:"omitempty,oneof=none explicit"`
	Loss                  *Loss             `json:"loss,omitempty"`
	LogitsDtype           string            `json:"logits_dtype,omitempty" validate:"omitempty,oneof=compute fp32"`
	HoldLogits            *bool             `json:"hold_logits,omitempty"`
	Kernels               []string          `json:"kernels,omitempty" validate:"omitempty,max=16,dive,oneof=rmsnorm layernorm rope swiglu bias-gelu bias-dropout-add softmax lora"`
	Compile               *Compile          `json:"compile,omitempty"`
	Dropout               *Dropout          `json:"dropout,omitempty"`
	LoRA                  *LoRA             `json:"lora,omitempty"`
	Distributed           *Distributed      `json:"distributed,omitempty"`
	ClipGradNorm          *bool             `json:"clip_grad_norm,omitempty"`
	Allocator             *Allocator        `json:"allocator,omitempty"`
	Evaluation            *Evaluation       `json:"evaluation,omitempty"`
	Framework             string            `json:"framework,omitempty" validate:"omitempty,oneof=pytorch nanogpt hf-trainer accelerate trl torchtune torchtitan litgpt megatron nanotron deepspeed llm-foundry unsloth llama-factory ms-swift xtuner axolotl lightning"`
	Versions              map[string]string `json:"versions,omitempty" validate:"omitempty,max=32,dive,keys,max=64,endkeys,max=64"`
}

// Precision is how tensors are stored and computed. Values: PrecisionAMPBF16 and the others below.
type Precision string

// The precisions. "amp" keeps float32 weights and computes under torch.autocast.
const (
	PrecisionAMPBF16 Precision = "amp-bf16"
	PrecisionAMPFP16 Precision = "amp-fp16"
	PrecisionFP32    Precision = "fp32"
	PrecisionTF32    Precision = "tf32"
	PrecisionBF16    Precision = "bf16"
	PrecisionFP16    Precision = "fp16"
	PrecisionFP8     Precision = "fp8"
)

// FP8 selects the scaling recipe when precision is fp8.
type FP8 struct {
	Recipe    string `json:"recipe,omitempty" validate:"omitempty,max=64"`
	AllGather bool   `json:"all_gather,omitempty"`
}

// States overrides what is stored, apart from what is computed in. Each is
// "fp32", "bf16", "fp16" or "none"; empty follows Precision.
type States struct {
	Weights         string `json:"weights,omitempty" validate:"omitempty,oneof=fp32 bf16 fp16 none"`
	Gradients       string `json:"gradients,omitempty" validate:"omitempty,oneof=fp32 bf16 fp16 none"`
	MasterWeights   string `json:"master_weights,omitempty" validate:"omitempty,oneof=fp32 bf16 fp16 none"`
	MasterGradients string `json:"master_gradients,omitempty" validate:"omitempty,oneof=fp32 bf16 fp16 none"`
	Optimizer       string `json:"optimizer,omitempty" validate:"omitempty,oneof=fp32 bf16 fp16 none"`
}

// Optimizer is a name or an object: "adamw" means {"name": "adamw"}.
type Optimizer struct {
	Name           string `json:"name,omitempty" validate:"omitempty,oneof=adamw adam sgd sgd-momentum adafactor lion adamw-8bit paged-adamw paged-adamw-8bit adamw-4bit lion-8bit muon galore-adamw amsgrad nadam radam adamax adadelta rmsprop adagrad"`
	Implementation string `json:"implementation,omitempty" validate:"omitempty,oneof=foreach fused for-loop bitsandbytes torchao transformers torch"`
	InBackward     bool   `json:"in_backward,omitempty"`
	Rank           int64  `json:"rank,omitempty" validate:"omitempty,gte=1,lte=1048576"`
}

// Checkpointing is a mode, {"every": n} or {"mode": …, "offload": true}.
type Checkpointing struct {
	Mode    string `json:"mode,omitempty" validate:"omitempty,oneof=none full selective selective-op"`
	Every   int64  `json:"every,omitempty" validate:"omitempty,gte=1,lte=100000"`
	Offload bool   `json:"offload,omitempty"`
}

// Loss is a kind or an object.
type Loss struct {
	Kind          string `json:"kind,omitempty" validate:"omitempty,oneof=standard fused chunked fused-linear"`
	Chunks        int64  `json:"chunks,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	ChunkTokens   int64  `json:"chunk_tokens,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	Head          string `json:"head,omitempty" validate:"omitempty,oneof=chunked whole"`
	VocabParallel bool   `json:"vocab_parallel,omitempty"`
}

// Compile is torch.compile: false, true, or what is compiled.
type Compile struct {
	Model bool `json:"model,omitempty"`
	Loss  bool `json:"loss,omitempty"`
}

// Dropout is one probability for both, or one each.
type Dropout struct {
	Hidden    *float64 `json:"hidden,omitempty" validate:"omitempty,gte=0,lt=1"`
	Attention *float64 `json:"attention,omitempty" validate:"omitempty,gte=0,lt=1"`
}

// LoRA trains low-rank adapters on a frozen base.
type LoRA struct {
	Rank int64 `json:"rank" validate:"required,gte=1,lte=1048576"`
	// Alpha scales what the adapters add. It changes no byte: the product is there whatever the factor is.
	Alpha              float64  `json:"alpha,omitempty"`
	TargetModules      Targets  `json:"target_modules,omitempty" validate:"omitempty,max=64,dive,min=1,max=200"`
	Dropout            float64  `json:"dropout,omitempty" validate:"gte=0,lt=1"`
	AdapterDtype       string   `json:"adapter_dtype,omitempty" validate:"omitempty,oneof=fp32 bf16 fp16"`
	BasePrecision      string   `json:"base_precision,omitempty" validate:"omitempty,oneof=bf16 fp16 fp32 int8 nf4 gptq-int4 gptq-int8"`
	DoubleQuantization bool     `json:"double_quantization,omitempty"`
	UpcastBase         *bool    `json:"upcast_base,omitempty"`
	ModulesToSave      []string `json:"modules_to_save,omitempty" validate:"omitempty,max=64,dive,min=1,max=200"`
	DoRA               bool     `json:"dora,omitempty"`
}

// Distributed spreads a job over GPUs.
type Distributed struct {
	WorldSize           int64           `json:"world_size,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	Data                string          `json:"data,omitempty" validate:"omitempty,oneof=ddp zero1 zero2 zero3 fsdp"`
	FSDPVersion         int64           `json:"fsdp_version,omitempty" validate:"omitempty,oneof=1 2"`
	ReshardAfterForward *bool           `json:"reshard_after_forward,omitempty"`
	LimitAllGathers     *bool           `json:"limit_all_gathers,omitempty"`
	DeepSpeed           json.RawMessage `json:"deepspeed,omitempty"`
	TensorParallel      int64           `json:"tensor_parallel,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	SequenceParallel    bool            `json:"sequence_parallel,omitempty"`
	AsyncTensorParallel bool            `json:"async_tensor_parallel,omitempty"`
	PipelineParallel    int64           `json:"pipeline_parallel,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	PipelineSchedule    string          `json:"pipeline_schedule,omitempty" validate:"omitempty,max=64"`
	VirtualPipeline     int64           `json:"virtual_pipeline,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	PipelineStage       *int64          `json:"pipeline_stage,omitempty" validate:"omitempty,gte=0,lte=1048576"`
	ContextParallel     int64           `json:"context_parallel,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	ContextParallelKind string          `json:"context_parallel_kind,omitempty" validate:"omitempty,max=64"`
	ExpertParallel      int64           `json:"expert_parallel,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	OffloadOptimizer    bool            `json:"offload_optimizer,omitempty"`
	OffloadParameters   bool            `json:"offload_parameters,omitempty"`
	NoSync              *bool           `json:"no_sync,omitempty"`
}

// Allocator sets PYTORCH_CUDA_ALLOC_CONF.
type Allocator struct {
	ExpandableSegments bool `json:"expandable_segments,omitempty"`
}

// Evaluation is an evaluation pass between training steps.
type Evaluation struct {
	MicroBatch int64 `json:"micro_batch,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	KeepLogits bool  `json:"keep_logits,omitempty"`
}

// GPURef names a card, or gives one that is not in the catalog.
type GPURef struct {
	Name        string `json:"name,omitempty" validate:"max=200"`
	MemoryBytes int64  `json:"memory_bytes,omitempty" validate:"omitempty,gte=1,lte=9007199254740991"`
}

// Targets are LoRA's target modules: a list, or one name such as "all-linear".
type Targets []string

// The union types below also accept a shorter JSON form than an object. The
// strict reader of job documents asks Shorthand which JSON kinds those are
// ("string", "number", "bool", "array"); an object is always walked field by field.

// Shorthand says that an optimizer may be its name.
func (Optimizer) Shorthand() []string { return []string{"string"} }

// Shorthand says that checkpointing may be its mode.
func (Checkpointing) Shorthand() []string { return []string{"string"} }

// Shorthand says that a loss may be its kind.
func (Loss) Shorthand() []string { return []string{"string"} }

// Shorthand says that compile may be true or false.
func (Compile) Shorthand() []string { return []string{"bool"} }

// Shorthand says that dropout may be one number.
func (Dropout) Shorthand() []string { return []string{"number"} }

// Shorthand says that a GPU may be its name.
func (GPURef) Shorthand() []string { return []string{"string"} }

// Shorthand says that target modules may be one name.
func (Targets) Shorthand() []string { return []string{"string"} }

// UnmarshalJSON accepts a name or an object.
func (o *Optimizer) UnmarshalJSON(b []byte) error {
	type plain Optimizer
	return either(b, &o.Name, (*plain)(o))
}

// UnmarshalJSON accepts a mode or an object.
func (c *Checkpointing) UnmarshalJSON(b []byte) error {
	type plain Checkpointing
	return either(b, &c.Mode, (*plain)(c))
}

// UnmarshalJSON accepts a kind or an object.
func (l *Loss) UnmarshalJSON(b []byte) error {
	type plain Loss
	return either(b, &l.Kind, (*plain)(l))
}

// UnmarshalJSON accepts a boolean (model and loss together) or an object.
func (c *Compile) UnmarshalJSON(b []byte) error {
	type plain Compile
	var on bool
	if err := either(b, &on, (*plain)(c)); err != nil {
		return err
	}
	if on {
		c.Model, c.Loss = true, true
	}
	return nil
}

// UnmarshalJSON accepts one probability or an object.
func (d *Dropout) UnmarshalJSON(b []byte) error {
	type plain Dropout
	var p *float64
	if err := either(b, &p, (*plain)(d)); err != nil {
		return err
	}
	if p != nil {
		d.Hidden, d.Attention = p, p
	}
	return nil
}

// UnmarshalJSON accepts a name or an object.
func (g *GPURef) UnmarshalJSON(b []byte) error {
	type plain GPURef
	return either(b, &g.Name, (*plain)(g))
}

// UnmarshalJSON accepts one name or a list of names.
func (t *Targets) UnmarshalJSON(b []byte) error {
	if first(b) == '"' {
		var one string
		if err := json.Unmarshal(b, &one); err != nil {
			return err
		}
		*t = Targets{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*t = list
	return nil
}

func first(b []byte) byte {
	if b = bytes.TrimSpace(b); len(b) > 0 {
		return b[0]
	}
	return 0
}

// either reads an object into long and anything else into short.
func either(b []byte, short, long any) error {
	if first(b) == '{' {
		return json.Unmarshal(b, long)
	}
	return json.Unmarshal(b, short)
}
