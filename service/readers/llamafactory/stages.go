package llamafactory

import (
	"cmp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/trl"
)

// port is LLaMA-Factory's trainer of preferences. While the reference runs, the policy's logits and their log-softmax
// are held, and the same two of the reference's; trl's own holds three such tensors at most.
// Source: llamafactory 0.9.3 train/dpo/trainer.py, train/kto/trainer.py (concatenated_forward) and
// train/trainer_utils.py (get_batch_logps).
var port = trl.Port{Tool: "LLaMA-Factory", Release: "0.26.2", Holds: "LLaMA-Factory's own holds the log-softmax of all " +
	"logits in float32 besides the logits, up to two tensors of that size more, and was not traced"}

// stage reads which kind of training it is, and returns trl's word for it; "" is the next token's loss.
func (r *job) stage() string {
	v, ok := r.In.Get("stage")
	switch name := v.String(); {
	case !ok || v.Unknown == "" && (name == "sft" || name == "pt"):
	case v.Unknown != "":
		r.RefuseObjective(cmp.Or(name, "stage"), v.Origin.At)
	case name == "dpo":
		return r.preference()
	case name == "kto":
		return name
	case name == "rm":
		r.Out.Refuse("objective", v.Origin.At, "stage rm trains a value head on the whole language model, whose logits it "+
			"makes besides (trl's AutoModelForCausalLMWithValueHead), which is not replayed; trl's RewardTrainer, which has "+
			"none, is: vramplan estimate --model %s --objective reward --micro-batch N --sequence-length N", r.named())
	case name == "ppo":
		r.Out.Refuse("objective", v.Origin.At, "stage ppo runs trl's former PPO with a value head on the policy, a reward "+
			"model and generation on the same card, which is not replayed; trl's PPOTrainer of 0.26 is: vramplan estimate "+
			"--model %s --objective ppo --micro-batch N --prompt-tokens N --completion-tokens N", r.named())
	default:
		r.Out.Refuse("cannot-start", v.Origin.At, "stage %s: LLaMA-Factory takes pt, sft, rm, ppo, dpo and kto", name)
	}
	return ""
}

// named is the trained model's name for a command, where one is known.
func (r *job) named() string {
	if v, ok := r.In.Peek("model_name_or_path"); ok && v.Unknown == "" && !strings.HasPrefix(v.String(), "/") {
		return v.String()
	}
	return "NAME"
}

// preference is which loss stage dpo computes (llamafactory 0.9.3 hparams/finetuning_args.py pref_loss); "" where that
// cannot be told.
func (r *job) preference() string {
	v, ok := r.In.Get("pref_loss")
	switch name := v.String(); {
	case !ok:
	case v.Unknown != "":
		r.Out.Ask("/training/objective/kind", "Which loss of preferences?", v.Origin.At.Where()+": "+v.Unknown)
	case name == "orpo" || name == "simpo":
		return name
	}
	return "dpo"
}

// objective reads what a stage other than the next token's loss has besides.
func (r *job) objective(kind string) {
	if kind == "" {
		return
	}
	r.In.Read("pref_beta", "pref_loss", "pref_ftx", "pref_bco_weight", "dpo_label_smoothing", "kto_chosen_weight",
		"kto_rejected_weight", "simpo_gamma", "ld_alpha")
	if kind == "simpo" {
		r.Ported("cpo", port)
		r.Out.Derive("/training/objective/kind", kind, "pref_loss")
	} else {
		r.Ported(kind, port)
	}
	if kind == "kto" {
		r.MismatchedPairs(port)
	}
	if kind != "dpo" && kind != "kto" {
		return
	}
	const reference = "/training/objective/reference"
	named, ok := r.In.Get("ref_model")
	separate := !r.Adapters()
	switch {
	case ok && named.Unknown != "":
		r.Out.Ask(reference, "Is the reference another model than the trained one?", named.Origin.At.Where()+": "+
			named.Unknown)
	case ok && named.Given():
		separate = true
		r.Out.Put(reference, "separate", named)
		if named.String() != r.In.Text("model_name_or_path") {
			r.Out.Uncertain(reference, "the reference %s (%s) counts as large as the trained model", named.String(),
				named.Origin.At.Where())
		}
	}
	if v, given := r.In.Get("ref_model_quantization_bit"); given && !v.Off() {
		r.Out.AskWord(v)
	}
	// a model that is not trained stays in the type that is computed in (llamafactory 0.9.3 model/loader.py load_model)
	for _, half := range []string{"bf16", "fp16"} {
		if v := r.Flag(half); separate && v.On() {
			r.Out.Put(reference+"_dtype", half, setting.Value{Text: v.Text, Origin: v.Origin})
		}
	}
}
