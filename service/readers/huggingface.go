package readers

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/estimator/step/optim"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// trainerDefaults are what a tool that hands its settings to transformers' Trainer changes of the Trainer's defaults.
type trainerDefaults struct {
	// framework is the job document's word for the tool.
	framework string
	// checkpointing is on by default, as ref says.
	checkpointing    bool
	checkpointingRef string
	// bf16 is on by default where fp16 is off.
	bf16    bool
	bf16Ref string
	// autocast is the half type that the tool sets by itself where neither bf16 nor fp16 is on, even where both are
	// said to be off.
	autocast, autocastRef string
	// asksPrecision is why nobody knows the precision where neither is on; "" where it is known.
	asksPrecision string
	// microBatch is the default micro-batch; 8 is the Trainer's.
	microBatch    int64
	microBatchRef string
}

// References of the Trainer's defaults, in transformers 4.57.6 src/transformers/training_args.py.
const (
	refMicroBatch   = "transformers 4.57.6 training_args.py:861"
	refAccumulation = "transformers 4.57.6 training_args.py:887"
	refOptimizer    = "transformers 4.57.6 training_args.py:1297 (torch 2.8 and newer)"
)

// trainer reads what all users of transformers' Trainer have in common.
func (r *reading) trainer(t trainerDefaults) {
	r.d.derive("/training/framework", t.framework, "the tool")
	r.trainerBatch(t)
	r.trainerShards()
	r.trainerPrecision(t)
	r.trainerCheckpointing(t)
	r.trainerOptimizer()
	r.trainerEvaluation()
	r.attention()
	r.liger()
	if v, ok := r.s.Get("torch_compile"); ok {
		if on, _ := v.Bool(); on {
			r.d.put("/training/compile", true, v)
		}
	}
	if v, ok := r.s.Get("torch_compile_backend", "torch_compile_mode"); ok && !v.Off() { // either switches it on
		r.d.put("/training/compile", true, v)
	}
	if r.s.On("no_cuda", "use_cpu") {
		r.d.refuse("no-gpu", r.at, "it trains on the CPU")
	}
	if v, ok := r.s.Peek("max_train_samples"); ok {
		r.d.floor("/training/micro_batch", int64(1), v.Origin.Key+" may leave fewer sequences than a batch holds")
	}
	r.s.Still(trainerStill...)
	r.s.Read(trainerAccepted...)
	r.loose(trainerLoose...)
}

// number puts a whole number into a field, asks where it is not known, and reports whether there was a value.
func (r *reading) number(pointer, ask string, keys ...string) bool {
	v, ok := r.s.Get(keys...)
	if !ok {
		return false
	}
	r.numberOf(pointer, ask, v)
	return true
}

func (r *reading) numberOf(pointer, ask string, v setting.Value) {
	n, isInt := v.Int()
	if v.Unknown != "" || !isInt || n < 1 {
		why := v.Unknown
		if why == "" {
			why = fmt.Sprintf("%s is %q", v.Origin.Key, v.String())
		}
		if at := v.Origin.At.Where(); at != "" {
			why = at + ": " + why
		}
		r.d.ask(pointer, ask, why)
		return
	}
	r.d.put(pointer, n, v)
}

const (
	askMicroBatch   = "How many sequences does one GPU take at a time?"
	askLength       = "How many tokens has a sequence?"
	askAccumulation = "How many micro-batches make an optimizer step?"
)

func (r *reading) trainerBatch(t trainerDefaults) {
	if !r.number("/training/micro_batch", askMicroBatch, "per_device_train_batch_size", "per_gpu_train_batch_size") {
		n, ref := int64(8), refMicroBatch
		if t.microBatch > 0 {
			n, ref = t.microBatch, t.microBatchRef
		}
		r.d.fall("/training/micro_batch", n, "per_device_train_batch_size", ref)
	}
	if !r.number("/training/gradient_accumulation", askAccumulation, "gradient_accumulation_steps") {
		r.d.fall("/training/gradient_accumulation", int64(1), "gradient_accumulation_steps", refAccumulation)
	}
	if r.s.On("auto_find_batch_size") {
		v, _ := r.s.Get("auto_find_batch_size")
		r.d.assume("/training/micro_batch", "auto_find_batch_size (%s) halves the micro-batch until it fits; what is "+
			"judged is the one that it begins with", v.Origin.At.Where())
	}
}

// dtype reads a type's name: torch.bfloat16, bf16.
func dtype(s string) string {
	switch strings.TrimPrefix(strings.ToLower(s), "torch.") {
	case "bfloat16", "bf16":
		return "bf16"
	case "float16", "fp16", "half":
		return "fp16"
	case "float32", "fp32", "float":
		return "fp32"
	}
	return ""
}

// trainerPrecision joins the type that is computed in (bf16, fp16), the type in which the model is loaded (torch_dtype)
// and what shards make of both: DeepSpeed stores weights in the type that is computed in, and accelerate brings what
// FSDP deals out to float32 (accelerate 1.15 accelerator.py prepare_model, utils/fsdp_utils.py fsdp2_prepare_model).
func (r *reading) trainerPrecision(t trainerDefaults) {
	bf16, fp16 := r.flag("bf16"), r.flag("fp16")
	loaded, loadedBy := r.loadedType()
	switch {
	case bf16.On() && fp16.On():
		r.d.refuse("cannot-start", bf16.Origin.At, "both bf16 and fp16 are on: the Trainer stops (At most one of fp16 "+
			"and bf16 can be True)")
		return
	case bf16.Unknown != "" || fp16.Unknown != "":
		v := bf16
		if v.Unknown == "" {
			v = fp16
		}
		r.d.ask("/training/precision", "In which precision does it train?", v.Origin.At.Where()+": "+v.Unknown)
		return
	}
	half, from := "", setting.Value{}
	switch {
	case bf16.On():
		half, from = "bf16", bf16
	case fp16.On():
		half, from = "fp16", fp16
	case t.autocast != "":
		half, from = t.autocast, setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: "bf16, fp16",
			Ref: t.autocastRef}}
	case t.asksPrecision != "":
		r.d.ask("/training/precision", "In which precision does it train?", t.asksPrecision)
		return
	case !bf16.Given() && t.bf16:
		half, from = "bf16", setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: "bf16", Ref: t.bf16Ref}}
	case r.accelerate != nil:
		if v, ok := r.accelerate.Get("mixed_precision"); ok && v.Unknown == "" &&
			(v.String() == "bf16" || v.String() == "fp16") {
			half, from = v.String(), v
		}
	}
	if half == "" && r.ds != nil {
		for _, name := range []string{"bf16", "fp16"} {
			if v, ok := r.ds.Get(name + ".enabled"); ok && v.On() {
				half, from = name, v
			}
		}
	}
	data := r.d.text("/training/distributed/data")
	deepspeed := r.ds != nil || strings.HasPrefix(data, "zero")
	switch {
	case half == "" && (loaded == "bf16" || loaded == "fp16"):
		r.d.put("/training/precision", loaded, loadedBy)
		r.byUnsaid()
	case half == "" && r.s.On("tf32"):
		v, _ := r.s.Get("tf32")
		r.d.put("/training/precision", "tf32", v)
	case half == "":
		r.d.fall("/training/precision", "fp32", "bf16, fp16", "transformers 4.57.6 training_args.py: both are off")
		r.byUnsaid()
	case deepspeed:
		r.d.put("/training/precision", half, from)
	case r.adapters() || data == "fsdp":
		r.d.put("/training/precision", "amp-"+half, from)
	case loaded == half:
		r.d.put("/training/precision", half, from)
		r.byUnsaid()
	default:
		r.d.put("/training/precision", "amp-"+half, from)
		if loaded == "bf16" || loaded == "fp16" {
			r.d.assume("/training/precision", "weights that are loaded in %s and computed with in %s are taken for float32 "+
				"ones, which is more", loaded, half)
			break
		}
		r.byUnsaid()
	}
	r.s.Read("tf32", "fp16_opt_level", "half_precision_backend", "fp16_backend", "bf16_full_eval", "fp16_full_eval")
}

// adapters reports whether the job trains adapters; readers of tools set the rank before the precision is read.
func (r *reading) adapters() bool { return r.d.has("/training/lora") }

// flag is a switch's value; one that is not there is not given.
func (r *reading) flag(keys ...string) setting.Value {
	v, _ := r.s.Get(keys...)
	return v
}

func (r *reading) trainerCheckpointing(t trainerDefaults) {
	// the first name is that of transformers 5.23
	v, ok := r.s.Get("activation_checkpointing", "gradient_checkpointing")
	for _, key := range []string{"activation_checkpointing_kwargs", "gradient_checkpointing_kwargs"} {
		given, is := r.s.Peek(key)
		if !is || !strings.HasPrefix(strings.TrimSpace(given.String()), "{") {
			continue
		}
		inner, readable := r.objectOf(given)
		if !readable {
			r.d.askWord(given)
			continue
		}
		for _, name := range inner.Keys() {
			x, _ := inner.Peek(name)
			r.s.Set(key+"."+name, x)
		}
	}
	kind, _ := r.s.Get("activation_checkpointing_kwargs.use_reentrant", "gradient_checkpointing_kwargs.use_reentrant",
		"use_reentrant")
	r.s.Read("gradient_checkpointing_kwargs*", "activation_checkpointing_kwargs*")
	for _, key := range []string{"gradient_checkpointing_kwargs.every_n_layers",
		"activation_checkpointing_kwargs.every_n_layers"} {
		if n, given := r.s.Get(key); given && ok && v.On() {
			if i, isInt := n.Int(); !isInt || i != 1 {
				r.d.askWord(n)
			}
		}
	}
	switch {
	case r.d.has("/training/gradient_checkpointing"):
	case ok && v.Unknown != "":
		r.d.ask("/training/gradient_checkpointing", "Is gradient checkpointing on?", v.Origin.At.Where()+": "+v.Unknown)
	case ok && v.On():
		r.d.put("/training/gradient_checkpointing", ofKind(kind), v)
	case (ok || !t.checkpointing) && r.checkpointedByCall():
	case ok:
		r.d.put("/training/gradient_checkpointing", "none", v)
	case t.checkpointing:
		r.d.fall("/training/gradient_checkpointing", ofKind(kind), "gradient_checkpointing", t.checkpointingRef)
	default:
		r.d.fall("/training/gradient_checkpointing", "none", "gradient_checkpointing",
			"transformers 4.57.6 training_args.py: off")
	}
}

// optimizer is a job document's optimizer.
type optimizer struct {
	Name           string `json:"name"`
	Implementation string `json:"implementation,omitempty"`
}

// trainerOptimizers are the Trainer's names. Those that are not here are not modelled.
var trainerOptimizers = spelled(optim.TrainerWords())

func spelled(words map[string]optim.Spelled) map[string]optimizer {
	all := make(map[string]optimizer, len(words))
	for word, o := range words {
		all[word] = optimizer(o)
	}
	return all
}

func (r *reading) trainerOptimizer() {
	if r.d.has("/training/optimizer") {
		r.s.Read("optim", "optimizer", "optim_args")
		return
	}
	v, ok := r.s.Get("optim", "optimizer")
	r.s.Read("adam_*", "adafactor")
	switch {
	case ok && v.Unknown != "":
		r.d.ask("/training/optimizer", "Which optimizer?", v.Origin.At.Where()+": "+v.Unknown)
	case ok:
		name := strings.ToLower(v.String())
		o, known := trainerOptimizers[name]
		if !known {
			r.d.refuse("unsupported", v.Origin.At, "the optimizer %s is not modelled", v.String())
			return
		}
		if m, args := r.s.Peek("optim_args"); args && name == "sgd" && r.momentum(m.String()) {
			o = optimizer{Name: "sgd-momentum"}
		}
		r.d.put("/training/optimizer", o, v)
	case r.s.On("adafactor"):
		v, _ := r.s.Get("adafactor")
		r.d.put("/training/optimizer", trainerOptimizers["adafactor"], v)
	default:
		r.d.fall("/training/optimizer", trainerOptimizers["adamw_torch_fused"], "optim", refOptimizer)
	}
}

// momentum says whether SGD's optim_args ask for one and the Trainer takes it from there. Source:
// transformers/trainer_optimizer.py (_get_sgd), 5.3.0; it left them aside before.
func (r *reading) momentum(args string) bool {
	if release := r.release("transformers"); release != "" && older(release, "5.3.0") {
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

// trainerEvaluation is the evaluation's batch where there is an evaluation: do_eval alone, or a strategy that is not
// "no".
func (r *reading) trainerEvaluation() {
	strategy, given := r.s.Get("eval_strategy", "evaluation_strategy")
	on := given && strategy.Unknown == "" && strategy.String() != "no" && strategy.Any != false
	if v, ok := r.s.Get("do_eval"); ok && v.On() {
		on, strategy = true, v
	}
	v, ok := r.s.Get("per_device_eval_batch_size", "per_gpu_eval_batch_size")
	switch {
	case !on:
	case ok:
		r.numberOf("/training/evaluation/micro_batch", "How many sequences does one GPU evaluate at a time?", v)
	default:
		r.d.fall("/training/evaluation/micro_batch", int64(8), "per_device_eval_batch_size",
			"transformers 4.57.6 training_args.py:868")
	}
}

// attentions are the names that transformers and the tools around it give to kernels.
var attentions = map[string]string{
	"flash_attention_2": "flash", "flash_attention_3": "flash", "flash_attention": "flash", "flash_attn": "flash",
	"fa2": "flash", "fa3": "flash", "flash": "flash",
	"sdpa": "sdpa", "eager": "eager", "disabled": "eager", "flash_attn_2": "flash", "flash_attn_3": "flash",
}

func (r *reading) attention() {
	if v, ok := r.s.Get("attn_implementation", "attn_impl"); ok {
		r.attentionOf(v)
	}
	if v, ok := r.s.Get("use_flash_attn", "use_flash_attention_2", "use_flash_attention", "flash_attention_2"); ok &&
		v.On() {
		r.d.put("/training/attention", "flash", v)
	}
}

func (r *reading) attentionOf(v setting.Value) {
	name := strings.ToLower(v.String())
	kind, ok := attentions[name]
	switch {
	case v.Unknown != "":
		r.d.assume("/training/attention", "%s is not known and is taken for sdpa: %s", v.Origin.Key, v.Unknown)
	case ok:
		r.d.put("/training/attention", kind, v)
	case strings.Contains(name, "flash"): // kernels-community/vllm-flash-attn3
		r.d.put("/training/attention", "flash", v)
	case name == "auto" || name == "":
	default:
		r.d.refuse("unsupported", v.Origin.At, "the attention %s is not modelled", v.String())
	}
}

// liger sets what Liger's patch of a whole model fuses (liger-kernel 0.6 transformers/monkey_patch.py).
func (r *reading) liger() {
	if v, ok := r.s.Get("use_liger_kernel", "use_liger", "enable_liger_kernel"); ok && v.On() {
		r.d.put("/training/loss", "fused-linear", v)
		r.d.put("/training/kernels", []any{"rope", "rmsnorm", "swiglu"}, v)
	}
	r.s.Read("liger_kernel_config*")
}
