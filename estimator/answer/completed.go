package answer

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolve/strategies"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// completion says what a field of the training is taken for where the job leaves it out. A row without fill is one
// whose absence says all there is to say, in the words of absent: nothing is assumed there. TestEveryFieldIsCompleted
// fails where a field of the document has no row.
type completion struct {
	field  string // "optimizer.name"
	absent string
	fill   func(c *completing)
}

// completing is a training on the way to one that says everything. Objects of it are its own.
type completing struct {
	r *resolved.Job
	t *job.Training
}

// none are absences that mean that something is not there, or what the field's own zero says.
const none = "none"

// Other absences.
const (
	// completedThere are filled before, by objectives.Completed.
	completedThere = "the trainer's own"
	// asScript are said by the script.
	asScript = "as the script does"
)

// completions are the rows, in the order in which they are filled.
var completions = []completion{
	{"micro_batch", "the job has to say it", nil},
	{"sequence_length", "", func(c *completing) {
		if c.t.SequenceLength == 0 && c.r.Arch.FixedTokens == 0 && !c.diffuses() {
			c.t.SequenceLength = cmp.Or(c.r.Sequence, c.r.Shape.Tokens)
		}
	}},
	{"target_sequence_length", "", func(c *completing) {
		if c.r.Arch.TargetTokens() {
			c.t.TargetSequenceLength = cmp.Or(c.t.TargetSequenceLength, c.r.Shape.Target)
		}
	}},
	{"resolution", "the job has to say it of a pipeline", nil},
	{"script", "", func(c *completing) {
		if c.diffuses() {
			c.t.Script = cmp.Or(c.t.Script, c.r.Script)
		}
	}},
	{"gradient_accumulation", "", func(c *completing) { c.t.GradientAccumulation = c.r.MicroSteps }},
	{"objective.kind", "", func(c *completing) {
		// trl's trainer of text, which a job of the framework alone means
		if _, is := c.r.Objective.(objective.SFT); is && c.t.Objective == nil {
			c.t.Objective = &job.Objective{Kind: "sft"}
		}
	}},
	{"objective.prompt_tokens", "", func(c *completing) {
		if g, is := c.r.Objective.(objective.GKD); is {
			c.objective().PromptTokens, c.objective().CompletionTokens = g.Prompt, g.Completion
		}
	}},
	{"objective.completion_tokens", "with prompt_tokens", nil},
	{"objective.images", "", func(c *completing) {
		if c.r.Arch.Sees() && c.t.Objective != nil {
			o := c.objective()
			o.Images, o.ImageSize = c.r.Shape.Images, []int64{c.r.Shape.Height, c.r.Shape.Width}
			o.ImageTokens = c.r.PictureTokens
		}
	}},
	{"objective.image_size", "with images", nil},
	{"objective.image_tokens", "with images", nil},
	// those that objectives.Completed says
	{"objective.loss_type", completedThere, nil},
	{"objective.reference", completedThere, nil},
	{"objective.packing_strategy", completedThere, nil},
	{"objective.num_generations", completedThere, nil},
	{"objective.beta", completedThere, nil},
	{"objective.num_iterations", completedThere, nil},
	{"objective.steps_per_generation", completedThere, nil},
	{"objective.rollout_forward_batch", completedThere, nil},
	{"objective.rollout", completedThere, nil},
	{"objective.teacher_dtype", completedThere, nil},
	{"objective.texts", completedThere, nil},
	{"objective.loss", completedThere, nil},
	{"objective.mini_batch", completedThere, nil},
	{"objective.pooling", completedThere, nil},
	{"objective.reference_resident", none, nil},
	{"objective.packing", none, nil},
	{"objective.padding_free", none, nil},
	{"objective.use_logits_to_keep", none, nil},
	{"objective.vllm_gpu_memory_utilization", none, nil},
	{"objective.vllm_sleep", none, nil},
	{"objective.teacher", none, nil},
	{"objective.freeze_vision", none, nil},
	{"objective.ema", none, nil},
	{"objective.train_text_encoder", none, nil},
	{"objective.reference_dtype", "as the model that is trained", nil},
	{"objective.matryoshka_dims", "the whole, a half and a quarter", nil},
	{"objective.train", asScript, nil},
	{"objective.latents", asScript, nil},
	{"objective.text_embeddings", asScript, nil},
	{"precision", "", func(c *completing) {
		c.t.Precision = cmp.Or(c.t.Precision, job.PrecisionAMPBF16)
	}},
	{"fp8", none, nil},
	{"states", "as the framework, the precision and the base of adapters say", nil},
	{"optimizer.name", "", func(c *completing) { c.optimizer().Name = cmp.Or(c.optimizer().Name, c.r.Optimizer.Name) }},
	{"optimizer.implementation", "", func(c *completing) {
		o := c.optimizer()
		for _, known := range c.r.Optimizer.Implementations {
			o.Implementation = cmp.Or(o.Implementation, known)
		}
	}},
	{"optimizer.in_backward", none, nil},
	{"optimizer.rank", "", func(c *completing) { c.optimizer().Rank = c.r.Rank }},
	{"gradient_checkpointing.mode", "", func(c *completing) {
		if !c.recorded() {
			k := c.checkpointing()
			if k.Mode == "" && (k.Every > 0 || k.Offload || k.Reentrant != nil) {
				k.Mode = "full"
			}
			k.Mode = cmp.Or(k.Mode, "none")
		}
	}},
	{"gradient_checkpointing.every", "", func(c *completing) {
		if k := c.t.GradientCheckpointing; k != nil && k.Mode == "full" {
			k.Every = max(k.Every, 1)
		}
	}},
	{"gradient_checkpointing.offload", none, nil},
	{"gradient_checkpointing.reentrant", "", func(c *completing) {
		// a model that ignores checkpointing has neither kind, and under torch.compile there is one
		if k := c.t.GradientCheckpointing; k != nil && k.Mode == "full" && c.r.Recompute.Every > 0 && k.Reentrant == nil &&
			!c.diffuses() {
			compiled := c.t.Compile != nil && c.t.Compile.Model // of which one kind is modelled
			if is := c.r.Recompute.Reentrant && !compiled; is || !k.Offload {
				k.Reentrant = &is
			}
		}
	}},
	{"attention", "", func(c *completing) {
		kind := "sdpa"
		if c.r.Unsaid && c.r.Asked == step.AttentionEager {
			kind = "eager" // its releases have no other where nothing is said
		}
		c.t.Attention = cmp.Or(c.t.Attention, kind)
	}},
	{"attention_mask", "", func(c *completing) { c.t.AttentionMask = cmp.Or(c.t.AttentionMask, "none") }},
	{"loss.kind", "", func(c *completing) {
		// what is replayed as Liger's is not: trl's trainer of text, where it is not modelled itself
		if c.r.Objective == nil && !c.recorded() && !c.r.LikeLiger {
			c.loss().Kind = cmp.Or(c.loss().Kind, lossWords[c.r.Criterion.Kind])
		}
	}},
	{"loss.chunks", "", func(c *completing) {
		if l := c.t.Loss; l != nil && l.ChunkTokens == 0 {
			l.Chunks = c.r.Criterion.Chunks
		}
	}},
	{"loss.chunk_tokens", "chunks says it", nil},
	{"loss.head", "", func(c *completing) {
		if l := c.t.Loss; l != nil && l.Kind == "chunked" && l.Head == "" && c.r.By.Rewritten != frameworks.Yes &&
			!rewritten.Torchtune(&c.r.Arch) {
			l.Head = "chunked"
		}
	}},
	{"loss.vocab_parallel", "as the framework divides the head", nil},
	{"label_smoothing", none, nil},
	{"neftune_noise_alpha", none, nil},
	{"logits_dtype", "", func(c *completing) {
		if !c.diffuses() {
			c.t.LogitsDtype = cmp.Or(c.t.LogitsDtype, "compute")
		}
	}},
	{"hold_logits", "", func(c *completing) {
		if c.t.HoldLogits == nil && !c.diffuses() {
			is := c.r.Outputs.Held
			c.t.HoldLogits = &is
		}
	}},
	{"kernels", none, nil},
	{"compile.model", none, nil},
	{"compile.loss", none, nil},
	{"dropout.hidden", "", func(c *completing) {
		own := c.r.Arch
		own.SetHiddenDropout(own.ResidualDropout)
		if one := reflect.DeepEqual(own, c.r.Arch); one && c.drops() && c.dropout().Hidden == nil {
			c.dropout().Hidden = &own.ResidualDropout
		}
	}},
	{"dropout.attention", "", func(c *completing) {
		if c.drops() && c.dropout().Attention == nil {
			own := c.r.Arch.AttentionDropout
			c.dropout().Attention = &own
		}
	}},
	{"lora.rank", "the job has to say it", nil},
	{"lora.alpha", "", func(c *completing) { // it changes no byte but where it is the rank
		if l := c.t.LoRA; l != nil && !l.UseRSLoRA && l.Alpha != float64(l.Rank) {
			l.Alpha = 0
		}
	}},
	{"lora.target_modules", "", func(c *completing) {
		if l := c.t.LoRA; l != nil && c.r.Arch.LoRA != nil && len(l.TargetModules) == 0 && !c.diffuses() {
			l.TargetModules = slices.Clone(c.r.Arch.LoRA.Targets)
		}
	}},
	{"lora.dropout", none, nil},
	{"lora.adapter_dtype", "", func(c *completing) {
		if l := c.t.LoRA; l != nil && c.r.Arch.LoRA != nil {
			l.AdapterDtype = cmp.Or(l.AdapterDtype, nameOf(c.r.Base.Adapters))
		}
	}},
	{"lora.base_precision", "", func(c *completing) {
		if l := c.t.LoRA; l != nil && c.r.Arch.LoRA != nil {
			l.BasePrecision = cmp.Or(l.BasePrecision, nameOf(c.r.Base.Loaded))
			// weights that are stored as the base is loaded, which is said, say nothing more
			if s := c.t.States; s != nil && *s == (job.States{Weights: l.BasePrecision}) && c.t.Distributed == nil {
				c.t.States = nil
			}
		}
	}},
	{"lora.double_quantization", none, nil},
	{"lora.upcast_base", "", func(c *completing) {
		if l := c.t.LoRA; l != nil && l.UpcastBase == nil && c.r.Arch.LoRA != nil &&
			c.r.Arch.LoRA.Base != step.NotQuantised {
			is := c.r.Base.Upcast
			l.UpcastBase = &is
		}
	}},
	{"lora.modules_to_save", none, nil},
	{"lora.dora", none, nil},
	{"lora.use_rslora", none, nil},
	{"lora.bias", none, nil},
	{"lora.layers_to_transform", none, nil},
	{"lora.rank_pattern", none, nil},
	{"lora.alpha_pattern", none, nil},
	{"lora.exclude_modules", none, nil},
	{"distributed.world_size", none, nil}, // one GPU
	{"distributed.data", "", func(c *completing) {
		if d := c.t.Distributed; d != nil && d.WorldSize > 1 {
			d.Data = cmp.Or(d.Data, "ddp")
		}
	}},
	{"distributed.fsdp_version", "", func(c *completing) {
		if d := c.t.Distributed; d != nil && c.r.Fsdp != nil && d.FSDPVersion == 0 {
			d.FSDPVersion = 2
			if c.r.Fsdp.Flat {
				d.FSDPVersion = 1
			}
		}
	}},
	{"distributed.reshard_after_forward", "as the framework does: layers are freed, and the root but in accelerate stays",
		nil},
	{"distributed.limit_all_gathers", "", func(c *completing) {
		if d := c.t.Distributed; d != nil && c.r.Fsdp != nil && c.r.Fsdp.Flat && d.LimitAllGathers == nil {
			is := true
			d.LimitAllGathers = &is
		}
	}},
	{"distributed.deepspeed", "DeepSpeed's own", nil},
	{"distributed.tensor_parallel", none, nil},
	{"distributed.sequence_parallel", none, nil},
	{"distributed.async_tensor_parallel", none, nil},
	{"distributed.pipeline_parallel", none, nil},
	{"distributed.pipeline_schedule", "", func(c *completing) {
		if d := c.t.Distributed; d != nil && d.PipelineParallel > 1 {
			schedule := "1f1b"
			if d.VirtualPipeline > 1 {
				schedule = "interleaved-1f1b"
			}
			d.PipelineSchedule = cmp.Or(d.PipelineSchedule, schedule)
		}
	}},
	{"distributed.virtual_pipeline", "as the schedule has it", nil},
	{"distributed.pipeline_stage", "the fullest is answered for", nil},
	{"distributed.rank", "the fullest is answered for", nil},
	{"distributed.context_parallel", none, nil},
	{"distributed.context_parallel_kind", "", func(c *completing) {
		if d := c.t.Distributed; d != nil && d.ContextParallel > 1 {
			d.ContextParallelKind = cmp.Or(d.ContextParallelKind, "allgather")
		}
	}},
	{"distributed.expert_parallel", none, nil},
	{"distributed.offload_optimizer", none, nil},
	{"distributed.offload_parameters", none, nil},
	{"distributed.no_sync", "", func(c *completing) {
		if d := c.t.Distributed; d != nil && c.r.Fsdp != nil && d.NoSync == nil {
			is := c.r.By.Whole == frameworks.Yes
			d.NoSync = &is
		}
	}},
	{"distributed.zero_init", "not known: it is a doubt", nil},
	{"distributed.find_unused_parameters", "", func(c *completing) {
		if _, is := c.r.Parallel.(strategies.DDP); is && c.t.Distributed.FindUnusedParameters == nil {
			looks := c.r.LooksForUnused
			c.t.Distributed.FindUnusedParameters = &looks
		}
	}},
	{"distributed.static_graph", none, nil},
	{"distributed.gradient_as_bucket_view", none, nil},
	{"distributed.bucket_cap_mb", "torch's own, 25 of which the first has 1", nil},
	{"distributed.shard_group", none, nil},
	{"allocator.expandable_segments", none, nil},
	{"allocator.max_split_size_mb", none, nil},
	{"allocator.roundup_power2_divisions", none, nil},
	{"allocator.garbage_collection_threshold", none, nil},
	{"clip_grad_norm", "", func(c *completing) {
		if c.t.ClipGradNorm == nil {
			is := c.r.Clip
			c.t.ClipGradNorm = &is
		}
	}},
	{"save", "", func(c *completing) {
		if c.t.Save == nil {
			is := c.r.Saves
			c.t.Save = &is
		}
	}},
	{"resume", none, nil},
	{"freeze", none, nil},
	{"evaluation.micro_batch", "", func(c *completing) {
		if e := c.t.Evaluation; e != nil {
			e.MicroBatch = cmp.Or(e.MicroBatch, c.t.MicroBatch)
		}
	}},
	{"evaluation.keep_logits", none, nil},
	{"framework", "", func(c *completing) { c.t.Framework = c.r.Framework }},
	{"versions", "", func(c *completing) {
		named := maps.Clone(c.r.Stack.Releases)
		maps.DeleteFunc(named, func(library, _ string) bool { // which the framework says
			_, held := c.r.By.Releases[library]
			return held
		})
		maps.Copy(named, c.r.Given)
		c.t.Versions = named
	}},
}

var lossWords = map[step.LossKind]string{step.LossStandard: "standard", step.LossFused: "fused",
	step.LossChunked: "chunked", step.LossChunkedWhole: "chunked", step.LossFusedLinear: "fused-linear"}

// Completed is t with what the job was taken for in every field that it leaves out and that may be said.
func (r Answerer) Completed(t *job.Training) *job.Training {
	own := *t
	c := &completing{r: r.Job, t: &own}
	c.own()
	for i := range completions {
		if fill := completions[i].fill; fill != nil {
			fill(c)
		}
	}
	return c.t
}

// own makes the objects that are filled the completing one's own.
func (c *completing) own() {
	t := c.t
	copied(&t.Objective)
	copied(&t.Optimizer)
	copied(&t.GradientCheckpointing)
	copied(&t.Loss)
	copied(&t.Dropout)
	copied(&t.LoRA)
	copied(&t.Distributed)
	copied(&t.Evaluation)
}

func copied[T any](at **T) {
	if *at != nil {
		own := **at
		*at = &own
	}
}

// made is the object at a place, which is put there where there is none.
func made[T any](at **T) *T {
	if *at == nil {
		*at = new(T)
	}
	return *at
}

func (c *completing) objective() *job.Objective { return made(&c.t.Objective) }

func (c *completing) optimizer() *job.Optimizer { return made(&c.t.Optimizer) }

func (c *completing) checkpointing() *job.Checkpointing { return made(&c.t.GradientCheckpointing) }

func (c *completing) loss() *job.Loss { return made(&c.t.Loss) }

func (c *completing) dropout() *job.Dropout { return made(&c.t.Dropout) }

// diffuses says that a script of diffusers trains a pipeline, of which most fields say nothing.
func (c *completing) diffuses() bool { return c.t.ObjectiveKind() == fields.Diffusion }

// recorded says that the model was recorded, with its own dropout, loss and checkpoints.
func (c *completing) recorded() bool { return recordings.Recording(&c.r.Arch) != nil }

// drops says that a job can say what is dropped.
func (c *completing) drops() bool { return !c.diffuses() && !c.recorded() }

// nameOf is a type as a job names it.
func nameOf(d step.DType) string {
	for name, is := range fields.Dtypes {
		if is == d {
			return name
		}
	}
	return ""
}
