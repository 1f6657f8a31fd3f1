package job

import (
	"cmp"
	"encoding/json"
)

// Objective is the kind of training, in the words of the library whose trainer runs it: "dpo" means {"kind": "dpo"}.
type Objective struct {
	// Kind is the trainer; language-model, the loss that the model returns, where it is left out. vision-language runs
	// in the Trainer, contrastive in sentence-transformers, diffusion in a script of diffusers, the others in trl.
	Kind string `json:"kind,omitempty" validate:"omitempty,oneof=language-model sft dpo orpo cpo simpo kto reward gkd grpo rloo ppo vision-language contrastive diffusion"`
	// PromptTokens and CompletionTokens are the lengths of a prompt and of what follows it; their sum is the
	// sequence_length.
	PromptTokens int64 `json:"prompt_tokens,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// CompletionTokens is the length of a completion.
	CompletionTokens int64 `json:"completion_tokens,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// Reference is another model (separate), the trained one without its adapters (adapter-off), or log-probabilities
	// that were computed before training (precomputed); adapter-off with lora and separate without where it is left
	// out.
	Reference string `json:"reference,omitempty" validate:"omitempty,oneof=separate adapter-off precomputed"`
	// ReferenceDtype is what a separate reference is stored in; as the trained model where it is left out.
	ReferenceDtype string `json:"reference_dtype,omitempty" validate:"omitempty,oneof=fp32 bf16 fp16"`
	// ReferenceResident says that a reference stays on the GPU though its log-probabilities were computed before.
	ReferenceResident bool `json:"reference_resident,omitempty"`
	// LossType is trl's loss_type: a name or a list of names.
	LossType Names `json:"loss_type,omitempty" validate:"omitempty,max=16,dive,min=1,max=64"`
	// Packing puts documents behind one another until a sequence is full.
	Packing bool `json:"packing,omitempty"`
	// PackingStrategy is bfd, which packs whole documents and makes one row of the batch, or wrapped; bfd where it is
	// left out.
	PackingStrategy string `json:"packing_strategy,omitempty" validate:"omitempty,oneof=bfd wrapped"`
	// PaddingFree makes one row of the sequences of a batch.
	PaddingFree bool `json:"padding_free,omitempty"`
	// UseLogitsToKeep computes the logits of the completions alone.
	UseLogitsToKeep bool `json:"use_logits_to_keep,omitempty"`
	// NumGenerations is how many completions are written for a prompt.
	NumGenerations int64 `json:"num_generations,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// Beta weighs the divergence from the reference; 0 has none.
	Beta *float64 `json:"beta,omitempty" validate:"omitempty,gte=0,lte=1000000"`
	// NumIterations is how often the same completions are trained on.
	NumIterations int64 `json:"num_iterations,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// StepsPerGeneration is for how many micro-steps completions are written at once; gradient_accumulation where it is
	// left out.
	StepsPerGeneration int64 `json:"steps_per_generation,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// RolloutForwardBatch is trl's local_rollout_forward_batch_size: how many completions PPO writes and measures at
	// once; 64 where it is left out.
	RolloutForwardBatch int64 `json:"rollout_forward_batch,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// Rollout is what writes the completions.
	Rollout string `json:"rollout,omitempty" validate:"omitempty,oneof=transformers vllm-colocate vllm-server"`
	// VLLMGPUMemoryUtilization is the share of the card that vLLM takes beside the trainer.
	VLLMGPUMemoryUtilization float64 `json:"vllm_gpu_memory_utilization,omitempty" validate:"omitempty,gt=0,lt=1"`
	// VLLMSleep says that vLLM gives its memory back while the model is trained.
	VLLMSleep bool `json:"vllm_sleep,omitempty"`
	// Teacher is the model that is distilled from, and TeacherDtype what it is stored in; bf16 where it is left out.
	Teacher *Companion `json:"teacher,omitempty"`
	// TeacherDtype is what the teacher is stored in.
	TeacherDtype string `json:"teacher_dtype,omitempty" validate:"omitempty,oneof=fp32 bf16 fp16"`
	// Images is how many pictures stand in a sequence, or tiles of pictures where a processor cuts them; 1 where it is
	// left out, and the tiles of one picture.
	Images int64 `json:"images,omitempty" validate:"omitempty,gte=1,lte=4096"`
	// ImageSize is the height and the width in pixels in which a picture reaches the model; those of vision_config
	// where it is left out, or a usual size, which a note says, where that has none.
	ImageSize []int64 `json:"image_size,omitempty" validate:"omitempty,len=2,dive,gte=1,lte=16384"`
	// ImageTokens is how many tokens of a sequence stand for its pictures. It follows from the rest, and is held
	// against it.
	ImageTokens int64 `json:"image_tokens,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// FreezeVision says that the tower that looks at the pictures is not trained.
	FreezeVision bool `json:"freeze_vision,omitempty"`
	// Texts is how many columns of texts an example has: 2 are pairs, 3 have a negative; 2 where it is left out.
	Texts int64 `json:"texts,omitempty" validate:"omitempty,gte=1,lte=64"`
	// Loss is that of a contrastive training; mnrl, MultipleNegativesRankingLoss, where it is left out.
	Loss string `json:"loss,omitempty" validate:"omitempty,oneof=mnrl cached-mnrl matryoshka-mnrl triplet symmetric-mnrl cosent angle cosine-similarity contrastive online-contrastive mse"`
	// MiniBatch is GradCache's mini_batch_size: how many texts are embedded at once; 32 where it is left out.
	MiniBatch int64 `json:"mini_batch,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// Pooling makes one embedding of a text's tokens; mean where it is left out.
	Pooling string `json:"pooling,omitempty" validate:"omitempty,oneof=mean cls lasttoken"`
	// MatryoshkaDims are the lengths of embeddings that are trained at once, from the longest to the shortest; the
	// whole, a half and a quarter where they are left out.
	MatryoshkaDims []int64 `json:"matryoshka_dims,omitempty" validate:"omitempty,max=8"`
	// Train is which part of a diffusion pipeline is trained; the one that denoises where it is left out.
	Train string `json:"train,omitempty" validate:"omitempty,oneof=unet transformer controlnet"`
	// Latents says whether the pictures are encoded in each step or were before training (--cache_latents); as the
	// script does by itself where it is left out.
	Latents string `json:"latents,omitempty" validate:"omitempty,oneof=each-step cached"`
	// TextEmbeddings says the same of the prompts.
	TextEmbeddings string `json:"text_embeddings,omitempty" validate:"omitempty,oneof=each-step cached"`
	// EMA keeps an average of the weights (--use_ema).
	EMA bool `json:"ema,omitempty"`
	// TrainTextEncoder trains the text encoder, too (--train_text_encoder).
	TrainTextEncoder bool `json:"train_text_encoder,omitempty"`
}

// Companion is a model that stands beside the one that is trained.
type Companion struct {
	// HFConfig is the object in a Hugging Face config.json, as it is.
	HFConfig json.RawMessage `json:"hf_config,omitempty"`
}

// Names are one name or a list of names.
type Names []string

// Shorthand says that names may be one name.
func (Names) Shorthand() []string { return []string{"string"} }

// UnmarshalJSON accepts one name or a list of names.
func (n *Names) UnmarshalJSON(b []byte) error { return (*Targets)(n).UnmarshalJSON(b) }

// Shorthand says that an objective may be its kind.
func (Objective) Shorthand() []string { return []string{"string"} }

// UnmarshalJSON accepts a kind or an object.
func (o *Objective) UnmarshalJSON(b []byte) error {
	type plain Objective
	return either(b, &o.Kind, (*plain)(o))
}

// LanguageModel is the kind that says nothing: the loss that the model returns.
const LanguageModel = "language-model"

// ObjectiveKind is the kind of the job's training.
func (t *Training) ObjectiveKind() string {
	if t.Objective == nil {
		return LanguageModel
	}
	return cmp.Or(t.Objective.Kind, LanguageModel)
}

// Given are the fields of o that say something, but for its kind and lengths.
func (o *Objective) Given() []string {
	var names []string
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"reference", o.Reference != ""}, {"reference_dtype", o.ReferenceDtype != ""},
		{"reference_resident", o.ReferenceResident},
		{"loss_type", o.LossType != nil}, {"packing", o.Packing}, {"packing_strategy", o.PackingStrategy != ""},
		{"padding_free", o.PaddingFree}, {"use_logits_to_keep", o.UseLogitsToKeep},
		{"num_generations", o.NumGenerations != 0},
		{"beta", o.Beta != nil}, {"num_iterations", o.NumIterations != 0},
		{"steps_per_generation", o.StepsPerGeneration != 0},
		{"rollout", o.Rollout != ""}, {"vllm_gpu_memory_utilization", o.VLLMGPUMemoryUtilization != 0},
		{"vllm_sleep", o.VLLMSleep}, {"rollout_forward_batch", o.RolloutForwardBatch != 0},
		{"teacher", o.Teacher != nil}, {"teacher_dtype", o.TeacherDtype != ""},
		{"images", o.Images != 0}, {"image_size", len(o.ImageSize) > 0}, {"image_tokens", o.ImageTokens != 0},
		{"freeze_vision", o.FreezeVision},
		{"texts", o.Texts != 0}, {"loss", o.Loss != ""}, {"mini_batch", o.MiniBatch != 0},
		{"pooling", o.Pooling != ""}, {"matryoshka_dims", len(o.MatryoshkaDims) > 0},
		{"train", o.Train != ""}, {"latents", o.Latents != ""}, {"text_embeddings", o.TextEmbeddings != ""},
		{"ema", o.EMA}, {"train_text_encoder", o.TrainTextEncoder},
	} {
		if f.is {
			names = append(names, f.name)
		}
	}
	return names
}
