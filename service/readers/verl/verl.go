// Package verl reads verl's trainers for supervised fine-tuning, in all of their releases.
package verl

import (
	"cmp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads verl's trainers for supervised fine-tuning: Hydra overrides over their own file.
var Tool = tool.Tool{Name: "verl", New: func(j *tool.Job) tool.Reader { return &job{Job: huggingface.Of(j)} },
	Still: stillText,
}

// job is one job on its way through this tool.
type job struct {
	huggingface.Job
	// engine says that verl's engine trains (verl.trainer.sft_trainer, from 0.6 on), and not the trainer before it.
	engine bool
	// release is the row of verl whose defaults count; taken says that nothing names it.
	release release
	taken   bool
}

// Words of verl's files.
const (
	global     = "data.micro_batch_size"
	perGPU     = "data.micro_batch_size_per_gpu"
	dynamic    = "data.use_dynamic_bsz"
	checkpoint = "model.enable_gradient_checkpointing"
	strategy   = "model.strategy"
	dtype      = "model.fsdp_config.model_dtype"
)

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	name := strings.TrimSuffix(strings.ReplaceAll(r.Program.Text, "/", "."), ".py")
	if i := strings.Index(name, "verl.trainer."); i >= 0 {
		name = name[i:]
	}
	if !strings.HasPrefix(name, "verl.trainer.") || !strings.Contains(name, "sft_trainer") {
		return false
	}
	r.engine = !strings.HasSuffix(name, "fsdp_sft_trainer")
	for _, w := range r.Args {
		if w.Open() {
			r.OpenWord(w)
		}
	}
	in := argv.Overrides(r.Args)
	file := "verl/trainer/config/sft_trainer.yaml"
	if r.engine {
		file = "verl/trainer/config/sft_trainer_engine.yaml"
	}
	said, _, err := r.LoadName(file)
	if err != nil {
		said = nil
	}
	r.release, r.taken = r.runs(in, said)
	below := setting.New()
	for key, value := range r.release.values {
		if said != nil && said.Has(key) {
			continue
		}
		below.Set(key, setting.Value{Any: value, Origin: setting.Origin{Kind: setting.Default, Key: key,
			Ref: "verl " + r.release.from + " " + file}})
	}
	if said != nil {
		below.Over(said)
	}
	below.Over(in)
	r.In = below
	return true
}

// Read maps the settings to fields.
func (r *job) Read() {
	s := r.In
	tool.Interpolate(s)
	if r.taken {
		r.Out.Assume("/training", "verl's defaults are those from %s on; --set versions.verl=RELEASE says otherwise",
			r.release.from)
	}
	r.Model("model.partial_pretrain", "model.path")
	sequences := r.Degree("", "ulysses_sequence_parallel_size", "engine.ulysses_sequence_parallel_size")
	if sequences > 1 {
		v, _ := s.Get("ulysses_sequence_parallel_size", "engine.ulysses_sequence_parallel_size")
		r.Out.Put("/training/distributed/context_parallel", sequences, v)
		r.Out.Put("/training/distributed/context_parallel_kind", "ulysses", v)
	}
	r.batch(sequences)
	if v, ok := s.Get(checkpoint); ok {
		r.Out.Put("/training/gradient_checkpointing", map[bool]string{true: "full", false: "none"}[v.On()], v)
	}
	r.shards()
	if v, ok := s.Get("model.lora_rank"); ok && !v.Off() {
		r.NumberOf("/training/lora/rank", "Of which rank are the adapters?", v)
		if t, given := s.Get("model.target_modules"); given {
			r.Out.Put("/training/lora/target_modules", models.Targets(t), t)
		}
	}
	if v, ok := r.In.FirstOn("model.use_liger"); ok {
		// all of Liger's patch but its loss, which is made of logits here (verl 0.5 verl/trainer/fsdp_sft_trainer.py
		// _compute_loss_and_backward; 0.9.1 workers/engine/fsdp/transformer_impl.py _build_module)
		kind := cmp.Or(models.Type(r.Launch, r.Out), "llama")
		if kernels := models.LigerKernels(models.Liger(kind)); len(kernels) > 0 {
			r.Out.Put("/training/kernels", kernels, v)
		}
	}
	s.Still(still...)
	s.Read("trainer.total_epochs", "trainer.total_training_steps", "trainer.test_freq", "trainer.nnodes",
		"trainer.n_gpus_per_node", "trainer.resume_*", "trainer.device", "trainer.checkpoint*", "model.trust_remote_code",
		"model.external_lib", "use_remove_padding", "model.use_remove_padding", "data.balance_dp_token",
		"data.train_batch_size", "model.target_modules*", dtype, "model.lora_rank")
	r.Loose(loose...)
	r.Loose(s.Rest()...)
}

// batch reads how many sequences a GPU takes at a time.
func (r *job) batch(sequences int64) {
	s := r.In
	s.Read(global, perGPU, dynamic, "data.max_token_len_per_gpu", "data.max_length")
	all, _ := s.Get("data.train_batch_size")
	if v, ok := s.FirstOn(dynamic); ok && r.engine {
		// micro-batches of as many samples as fit are one row without padding (0.9.1 workers/engine/utils.py
		// prepare_micro_batches); the shorter ones do not fill it
		if n, ok := s.Get("data.max_token_len_per_gpu"); ok {
			tokens, isInt := n.Int()
			if !isInt || n.Unknown != "" || tokens < 1 || tokens > 1<<40 {
				r.Out.Ask("/training/sequence_length", "How many tokens has a micro-batch of one GPU?", n.Origin.At.Where()+
					": "+cmp.Or(n.Unknown, n.Origin.Key+" is "+n.String()))
			} else {
				r.Out.Put("/training/sequence_length", tokens*sequences, n)
			}
		}
		r.Out.Put("/training/micro_batch", int64(1), v)
		r.steps(all)
		return
	}
	r.Number("/training/sequence_length", tool.AskLength, "data.max_length")
	if v, ok := s.Get(global); ok && r.release.global {
		r.share(v)
	} else {
		r.Number("/training/micro_batch", tool.AskMicroBatch, perGPU)
	}
	if all.Given() {
		r.Accumulate(all, sequences)
	}
}

// steps is how many micro-batches a step has at the most where each has as many samples as fit.
func (r *job) steps(all setting.Value) {
	const pointer = "/training/gradient_accumulation"
	batch, isInt := all.Int()
	longest, _ := r.In.Get("data.max_length")
	length, hasLength := longest.Int()
	tokens, hasTokens := r.Out.Int("/training/sequence_length") // of the GPUs that share a sequence
	w := r.GPUs()
	if !isInt || !hasLength || !hasTokens || !w.Known || batch < 1 || batch > 1<<32 || length < 1 || length > tokens {
		return
	}
	degree, _ := r.Out.Int("/training/distributed/context_parallel")
	replicas := max(w.N/max(degree, 1), 1)
	rows := (batch + replicas - 1) / replicas
	most := (rows*length + tokens - 1) / tokens
	r.Out.Derive(pointer, max(most, 1), "at most %d samples of %d tokens in micro-batches of %d", rows, length, tokens)
	r.Out.Floor(pointer, int64(1), "samples may be so short that one micro-batch holds all of a step")
}

// share divides what all GPUs take together: micro_batch_size //= dp_size (0.1 trainer/fsdp_sft_trainer.py
// _normalize_config_bsz).
func (r *job) share(v setting.Value) {
	const pointer = "/training/micro_batch"
	n, isInt := v.Int()
	if v.Unknown != "" || !isInt || n < 1 {
		r.NumberOf(pointer, tool.AskMicroBatch, v)
		return
	}
	w := r.GPUs()
	switch {
	case !w.Known:
		r.Out.Ask(pointer, tool.AskMicroBatch, v.Origin.Key+" is of all GPUs together up to verl 0.1, and their number is "+
			"not known")
	case n%w.N != 0 && r.taken:
		r.Out.Ask(pointer, tool.AskMicroBatch, v.Origin.Key+" is of all GPUs together up to verl 0.1, which "+
			"cannot be divided here, and has no effect from 0.2 on")
	case n%w.N != 0:
		r.Out.Refuse("cannot-start", v.Origin.At, "%s %d is of all GPUs together up to verl 0.1, and is not divisible by "+
			"%d GPUs", v.Origin.Key, n, w.N)
	default:
		r.Out.Derive(pointer, n/w.N, "%s %d / %d GPUs, as verl up to 0.1 divides it", v.Origin.Key, n, w.N)
	}
}

// shards reads how the model is dealt out and in which types.
func (r *job) shards() {
	s := r.In
	if v, ok := s.Get("engine"); ok && v.String() != "fsdp" {
		r.Out.Refuse("unsupported", v.Origin.At, "verl's engine %s is not modelled: fsdp is", draft.Clip(v.String()))
		return
	}
	kind, _ := s.Get(strategy, "engine.strategy")
	if name := kind.String(); kind.Unknown != "" || name != "fsdp" && name != "fsdp2" {
		r.Out.Refuse("unsupported", kind.Origin.At, "the strategy %s of verl is not modelled: fsdp and fsdp2 are",
			draft.Clip(name))
		return
	}
	r.Out.Put("/training/distributed/data", "fsdp", kind)
	r.Out.Put("/training/distributed/fsdp_version", map[bool]int64{true: 2, false: 1}[kind.String() == "fsdp2"], kind)
	if v, ok := s.Get("engine.reshard_after_forward"); ok && v.Unknown == "" && v.Off() {
		r.Out.Put("/training/distributed/reshard_after_forward", false, v)
	}
	if v, ok := s.FirstOn("model.fsdp_config.offload_params", "engine.offload_policy"); ok {
		r.Out.Put("/training/distributed/offload_parameters", true, v)
	}
	const precision = "/training/precision"
	switch v, ok := s.Get(dtype, "engine.model_dtype"); {
	case ok && v.Unknown != "":
		r.Out.Ask(precision, "In which type is the model loaded?", v.Origin.At.Where()+": "+v.Unknown)
	case ok && draft.Dtype(v.String()) == "bf16":
		r.Out.Put(precision, "bf16", v)
	case ok && draft.Dtype(v.String()) != "fp32":
		r.Out.Refuse("unsupported", v.Origin.At, "%s %s is not modelled: fp32 and bf16 are", v.Origin.Key, v.String())
	default:
		r.Out.Fall(precision, "amp-bf16", "mixed_precision",
			"verl 0.5 verl/trainer/fsdp_sft_trainer.py: float32 shards, bfloat16 gathered")
	}
	if r.engine {
		// flash-attn's loss writes the gradient over the logits (0.9.1 utils/torch_functional.py
		// logprobs_from_logits_flash_attn, inplace_backward)
		r.Out.Fall("/training/loss", "fused", "logprobs_from_logits", "verl 0.9.1 verl/utils/torch_functional.py")
	}
}
