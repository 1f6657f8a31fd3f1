// Package huggingface reads the arguments of transformers' Trainer, for all tools that hand theirs to it.
package huggingface

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/step/optim"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/shards"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Job is a job whose settings a tool hands to transformers' Trainer.
type Job struct {
	shards.Job
	// Fresh is set where the model begins with random weights.
	Fresh bool
	// SeesImages is set where the model is a classifier of pictures.
	SeesImages bool
	// Loads is the function or class whose default is the type of a model that is loaded without one; "" where a tool
	// loads it in float32.
	Loads string
	// unsaid says what was taken for that type, once a field rests on it; nil where nothing was.
	unsaid func()
}

// Of is a job before anything is read of it.
func Of(j *tool.Job) Job { return Job{Job: shards.Of(j)} }

// Defaults are what counts where a tool that hands its settings to transformers' Trainer is told nothing.
type Defaults struct {
	// Framework is the job document's word for the tool.
	Framework string
	// Table is the framework whose rows of the table of defaults count; "" is the Trainer's own.
	Table string
	// Autocast is the half type that the tool sets by itself where neither bf16 nor fp16 is on, even where both are
	// said to be off.
	Autocast, AutocastRef string
	// AsksPrecision is why nobody knows the precision where neither is on; "" where it is known.
	AsksPrecision string
}

// Taken is what the table has for a field where nobody says it, in the releases that the job names.
func (r *Job) Taken(t Defaults, field string) (defaults.Taken, bool) {
	named := map[string]string{}
	for _, tool := range []string{"torch", "transformers", "trl"} {
		if v := r.Release(tool); v != "" {
			named[tool] = v
		}
	}
	return defaults.For(cmp.Or(t.Table, "hf-trainer"), field, named)
}

// fall takes a field from the table.
func (r *Job) fall(t Defaults, field string) {
	if taken, ok := r.Taken(t, field); ok {
		pointer := "/training/" + strings.ReplaceAll(field, ".", "/")
		r.Out.Fall(pointer, tool.Plain(taken.Value), taken.Row.Key, taken.Row.String())
	}
}

// TakenFor takes a field of a framework from the table, where the tool says by it that there is more than the field.
func (r *Job) TakenFor(framework, field string) { r.fall(Defaults{Table: framework}, field) }

// ReadTrainer reads what all users of transformers' Trainer have in common.
func (r *Job) ReadTrainer(t Defaults) {
	r.Out.Derive("/training/framework", t.Framework, "the tool")
	r.Batch(t)
	r.dealtOut()
	r.Precision(t)
	r.checkpointing(t)
	r.optimizer(t)
	r.evaluation(t)
	r.attention()
	r.clips()
	r.Liger()
	if v, ok := r.In.Get("torch_compile"); ok {
		if on, _ := v.Bool(); on {
			r.Out.Put("/training/compile", true, v)
		}
	}
	if v, ok := r.In.Get("torch_compile_backend", "torch_compile_mode"); ok && !v.Off() { // either switches it on
		r.Out.Put("/training/compile", true, v)
	}
	if r.In.On("no_cuda", "use_cpu") {
		r.Out.Refuse("no-gpu", r.At, "it trains on the CPU")
	}
	if v, ok := r.In.Peek("max_train_samples"); ok {
		r.Out.Floor("/training/micro_batch", int64(1), v.Origin.Key+" may leave fewer sequences than a batch holds")
	}
	r.In.Still(Still...)
	r.In.Read(Accepted...)
	r.Loose(Loose...)
}

// Batch reads the micro-batch and the accumulation.
func (r *Job) Batch(t Defaults) {
	if !r.Number("/training/micro_batch", tool.AskMicroBatch, "per_device_train_batch_size", "per_gpu_train_batch_size") {
		r.fall(t, defaults.MicroBatch)
	}
	if !r.Number("/training/gradient_accumulation", tool.AskAccumulation, "gradient_accumulation_steps") {
		r.fall(t, defaults.Accumulation)
	}
	if r.In.On("auto_find_batch_size") {
		v, _ := r.In.Get("auto_find_batch_size")
		r.Out.Assume("/training/micro_batch", "auto_find_batch_size (%s) halves the micro-batch until it fits; what is "+
			"judged is the one that it begins with", v.Origin.At.Where())
	}
}

// Precision joins the type that is computed in (bf16, fp16), the type in which the model is loaded (torch_dtype)
// and what shards make of both: DeepSpeed stores weights in the type that is computed in, and accelerate brings what
// FSDP deals out to float32 (accelerate 1.15 accelerator.py prepare_model, utils/fsdp_utils.py fsdp2_prepare_model).
func (r *Job) Precision(t Defaults) {
	bf16, fp16 := r.Flag("bf16"), r.Flag("fp16")
	loaded, loadedBy := r.loadedType()
	switch {
	case bf16.On() && fp16.On():
		r.Out.Refuse("cannot-start", bf16.Origin.At, "both bf16 and fp16 are on: the Trainer stops (At most one of fp16 "+
			"and bf16 can be True)")
		return
	case bf16.Unknown != "" || fp16.Unknown != "":
		v := bf16
		if v.Unknown == "" {
			v = fp16
		}
		r.Out.Ask("/training/precision", "In which precision does it train?", v.Origin.At.Where()+": "+v.Unknown)
		return
	}
	half, from := "", setting.Value{}
	mixed, autocast := r.Taken(t, defaults.Precision)
	switch {
	case bf16.On():
		half, from = "bf16", bf16
	case fp16.On():
		half, from = "fp16", fp16
	case t.Autocast != "":
		half, from = t.Autocast, setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: "bf16, fp16",
			Ref: t.AutocastRef}}
	case t.AsksPrecision != "":
		r.Out.Ask("/training/precision", "In which precision does it train?", t.AsksPrecision)
		return
	case !bf16.Given() && autocast:
		half, from = "bf16", setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: mixed.Row.Key,
			Ref: mixed.Row.String()}}
	case r.Accelerate != nil:
		if v, ok := r.Accelerate.Get("mixed_precision"); ok && v.Unknown == "" &&
			(v.String() == "bf16" || v.String() == "fp16") {
			half, from = v.String(), v
		}
	}
	if half == "" && r.DeepSpeed != nil {
		for _, name := range []string{"bf16", "fp16"} {
			if v, ok := r.DeepSpeed.Get(name + ".enabled"); ok && v.On() {
				half, from = name, v
			}
		}
	}
	data := r.Out.Text("/training/distributed/data")
	deepspeed := r.DeepSpeed != nil || strings.HasPrefix(data, "zero")
	switch {
	case half == "" && (loaded == "bf16" || loaded == "fp16"):
		r.Out.Put("/training/precision", loaded, loadedBy)
		r.byUnsaid()
	case half == "" && r.In.On("tf32"):
		v, _ := r.In.Get("tf32")
		r.Out.Put("/training/precision", "tf32", v)
	case half == "":
		off, _ := defaults.Row("transformers", "bf16", r.Release("transformers"))
		r.Out.Fall("/training/precision", "fp32", "bf16, fp16", off.String()+": both are off")
		r.byUnsaid()
	case deepspeed:
		r.Out.Put("/training/precision", half, from)
	case r.Adapters() || data == "fsdp":
		r.Out.Put("/training/precision", "amp-"+half, from)
	case loaded == "fp16" && half == "fp16":
		r.Out.Refuse("cannot-start", from.Origin.At, "the model is loaded in float16 (%s) and fp16 is on: PyTorch's "+
			"GradScaler stops (Attempting to unscale FP16 gradients); load it in float32, or train in bf16",
			cmp.Or(loadedBy.Origin.At.Where(), "the type of its checkpoint"))
		r.byUnsaid()
	default:
		r.Out.Put("/training/precision", "amp-"+half, from)
		r.StoredIn(loaded, loadedBy)
		if loaded != "bf16" && loaded != "fp16" && r.tableLoads(t) {
			r.Out.Put("/training/states/weights", "fp32", loadedBy)
		}
		r.byUnsaid()
	}
	r.In.Read("tf32", "fp16_opt_level", "half_precision_backend", "fp16_backend", "bf16_full_eval", "fp16_full_eval")
}

// tableLoads says whether a document that is silent about the type of the weights has them in a half type: a program
// that loads another, starts afresh or shows an older release has to say so.
func (r *Job) tableLoads(t Defaults) bool {
	var read job.Job
	if json.Unmarshal(r.Out.Document(), &read) != nil {
		return false
	}
	read.Training.Framework = t.Framework
	stored := defaults.Filled(read).Training.States
	return stored != nil && (stored.Weights == "bf16" || stored.Weights == "fp16")
}

// StoredIn says in which half type the weights are that are computed with under autocast: autocast writes float32
// where it would over float32 weights, while gradients and the optimizer's states are of the weights' type.
func (r *Job) StoredIn(kind string, from setting.Value) {
	if kind == "bf16" || kind == "fp16" {
		r.Out.Put("/training/states/weights", kind, from)
	}
}

// Adapters reports whether the job trains adapters; readers of tools set the rank before the precision is read.
func (r *Job) Adapters() bool { return r.Out.Has("/training/lora") }

func (r *Job) checkpointing(t Defaults) {
	// the first name is that of transformers 5.23
	v, ok := r.In.Get("activation_checkpointing", "gradient_checkpointing")
	for _, key := range []string{"activation_checkpointing_kwargs", "gradient_checkpointing_kwargs"} {
		given, is := r.In.Peek(key)
		if !is || !strings.HasPrefix(strings.TrimSpace(given.String()), "{") {
			continue
		}
		inner, readable := r.ObjectOf(given)
		if !readable {
			r.Out.AskWord(given)
			continue
		}
		for _, name := range inner.Keys() {
			x, _ := inner.Peek(name)
			r.In.Set(key+"."+name, x)
		}
	}
	kind, _ := r.In.Get("activation_checkpointing_kwargs.use_reentrant", "gradient_checkpointing_kwargs.use_reentrant",
		"use_reentrant")
	r.In.Read("gradient_checkpointing_kwargs*", "activation_checkpointing_kwargs*")
	for _, key := range []string{"gradient_checkpointing_kwargs.every_n_layers",
		"activation_checkpointing_kwargs.every_n_layers"} {
		if n, given := r.In.Get(key); given && ok && v.On() {
			if i, isInt := n.Int(); !isInt || i != 1 {
				r.Out.AskWord(n)
			}
		}
	}
	unsaid, _ := r.Taken(t, defaults.Checkpointing)
	on := unsaid.Value == job.Checkpointing{Mode: "full"}
	switch {
	case r.Out.Has("/training/gradient_checkpointing"):
	case ok && v.Unknown != "":
		r.Out.Ask("/training/gradient_checkpointing", "Is gradient checkpointing on?", v.Origin.At.Where()+": "+v.Unknown)
	case ok && v.On():
		r.Out.Put("/training/gradient_checkpointing", draft.OfKind(kind), v)
	case (ok || !on) && r.checkpointedByCall():
	case ok:
		r.Out.Put("/training/gradient_checkpointing", "none", v)
	case on:
		r.Out.Fall("/training/gradient_checkpointing", draft.OfKind(kind), unsaid.Row.Key, unsaid.Row.String())
	default:
		r.Out.Fall("/training/gradient_checkpointing", "none", unsaid.Row.Key, unsaid.Row.String())
	}
}

// Optimizers are the Trainer's names. Those that are not here are not modelled.
var Optimizers = tool.Spelled(optim.TrainerWords())

func (r *Job) optimizer(t Defaults) {
	if r.Out.Has("/training/optimizer") {
		r.In.Read("optim", "optimizer", "optim_args")
		return
	}
	v, ok := r.In.Get("optim", "optimizer")
	r.In.Read("adam_*", "adafactor")
	switch {
	case ok && v.Unknown != "":
		r.Out.Ask("/training/optimizer", "Which optimizer?", v.Origin.At.Where()+": "+v.Unknown)
	case ok:
		name := strings.ToLower(v.String())
		o, known := Optimizers[name]
		if !known {
			r.Out.Refuse("unsupported", v.Origin.At, "the optimizer %s is not modelled", v.String())
			return
		}
		if m, args := r.In.Peek("optim_args"); args && name == "sgd" && r.momentum(m.String()) {
			o = draft.Optimizer{Name: "sgd-momentum"}
		}
		r.Out.Put("/training/optimizer", o, v)
	case r.In.On("adafactor"):
		v, _ := r.In.Get("adafactor")
		r.Out.Put("/training/optimizer", Optimizers["adafactor"], v)
	default:
		if taken, ok := r.Taken(t, defaults.Optimizer); ok {
			o := taken.Value.(job.Optimizer)
			r.Out.Fall("/training/optimizer", draft.Optimizer{Name: o.Name, Implementation: o.Implementation}, taken.Row.Key,
				taken.Row.String())
		}
	}
}

// momentum says whether SGD's optim_args ask for one and the Trainer takes it from there. Source:
// transformers/trainer_optimizer.py (_get_sgd), 5.3.0; it left them aside before.
func (r *Job) momentum(args string) bool {
	if release := r.Release("transformers"); release != "" && defaults.Older(release, "5.3.0") {
		return false
	}
	for arg := range strings.SplitSeq(strings.ReplaceAll(args, " ", ""), ",") {
		name, value, _ := strings.Cut(arg, "=")
		if n, err := strconv.ParseFloat(value, 64); name == "momentum" && err == nil && n != 0 {
			return true
		}
	}
	return false
}

// evaluation is the evaluation's batch where there is an evaluation: do_eval alone, or a strategy that is not
// "no".
func (r *Job) evaluation(t Defaults) {
	strategy, given := r.In.Get("eval_strategy", "evaluation_strategy")
	on := given && strategy.Unknown == "" && strategy.String() != "no" && strategy.Any != false
	if v, ok := r.In.Get("do_eval"); ok && v.On() {
		on, strategy = true, v
	}
	v, ok := r.In.Get("per_device_eval_batch_size", "per_gpu_eval_batch_size")
	switch {
	case !on:
	case ok:
		r.NumberOf("/training/evaluation/micro_batch", "How many sequences does one GPU evaluate at a time?", v)
	default:
		r.fall(t, defaults.EvaluationBatch)
	}
}

// clips reads max_grad_norm, of which 0 clips nothing (transformers 4.57.6 trainer.py: "if args.max_grad_norm is not
// None and args.max_grad_norm > 0").
func (r *Job) clips() {
	v, ok := r.In.Peek("max_grad_norm")
	if n, isFloat := v.Float(); ok && isFloat && v.Unknown == "" && n == 0 {
		r.Out.Put("/training/clip_grad_norm", false, v)
	}
}

// attentions are the names that transformers and the tools around it give to kernels.
var attentions = map[string]string{
	"flash_attention_2": "flash", "flash_attention_3": "flash", "flash_attention": "flash", "flash_attn": "flash",
	"fa2": "flash", "fa3": "flash", "flash": "flash",
	"sdpa": "sdpa", "eager": "eager", "disabled": "eager", "flash_attn_2": "flash", "flash_attn_3": "flash",
}

func (r *Job) attention() {
	if v, ok := r.In.Get("attn_implementation", "attn_impl"); ok {
		r.AttentionOf(v)
	}
	if v, ok := r.In.Get("use_flash_attn", "use_flash_attention_2", "use_flash_attention", "flash_attention_2"); ok &&
		v.On() {
		r.Out.Put("/training/attention", "flash", v)
	}
}

// AttentionOf reads the name of a kernel.
func (r *Job) AttentionOf(v setting.Value) {
	name := strings.ToLower(v.String())
	kind, ok := attentions[name]
	switch {
	case v.Unknown != "":
		r.Out.Assume("/training/attention", "%s is not known and is taken for sdpa: %s", v.Origin.Key, v.Unknown)
	case ok:
		r.Out.Put("/training/attention", kind, v)
	case strings.Contains(name, "flash"): // kernels-community/vllm-flash-attn3
		r.Out.Put("/training/attention", "flash", v)
	case name == "auto" || name == "":
	default:
		r.Out.Refuse("unsupported", v.Origin.At, "the attention %s is not modelled", v.String())
	}
}

// Liger sets what Liger's patch of a whole model fuses, which depends on the type of the model and on
// liger_kernel_config.
func (r *Job) Liger() {
	v, ok := r.In.Get("use_liger_kernel", "use_liger", "enable_liger_kernel")
	config, given := r.In.Peek("liger_kernel_config")
	switches := r.In.Under("liger_kernel_config")
	if given && switches.Len() == 0 && !config.Off() {
		var readable bool
		if switches, readable = r.ObjectOf(config); !readable {
			switches = setting.New()
			if ok && v.On() {
				r.Out.AskWord(config)
			}
		}
	}
	r.In.Read("liger_kernel_config*")
	if !ok || !v.On() {
		return
	}
	kind := models.Type(r.Launch, r.Out)
	on := models.Liger(kind)
	if kind == "" {
		on = models.Liger("llama")
	}
	if on == nil {
		r.Out.Settle("/training/kernels", "%s (%s) changes nothing: Liger patches no model of type %s", v.Origin.Key,
			v.Origin.At.Where(), kind)
		return
	}
	for _, key := range switches.Keys() {
		x, _ := switches.Peek(key)
		if _, isBool := x.Bool(); !isBool || x.Unknown != "" {
			r.Out.AskWord(x)
			continue
		}
		on[key] = x.On()
	}
	switch {
	case on["fused_linear_cross_entropy"]:
		r.Out.Put("/training/loss", "fused-linear", v)
	case on["cross_entropy"]:
		r.Out.Put("/training/loss", "fused", v)
	}
	if kernels := models.LigerKernels(on); len(kernels) > 0 {
		r.Out.Put("/training/kernels", kernels, v)
	}
}
