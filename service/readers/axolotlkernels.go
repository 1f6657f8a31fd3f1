package readers

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// axolotlKernels reads attention, Liger and the plugins.
func (r *reading) axolotlKernels() {
	s := r.s
	for _, a := range []struct{ key, kind string }{{"flash_attention", "flash"}, {"sdp_attention", "sdpa"},
		{"eager_attention", "eager"}} {
		if v, ok := r.s.FirstOn(a.key); ok {
			r.d.put("/training/attention", a.kind, v)
		}
	}
	if v, ok := s.Get("attn_implementation"); ok {
		r.attentionOf(v)
	}
	for _, key := range []string{"xformers_attention", "flex_attention", "s2_attention"} {
		if v, ok := r.s.FirstOn(key); ok {
			r.d.assume("/training/attention", "%s (%s) takes what PyTorch's own attention takes", key,
				v.Origin.At.Where())
		}
	}
	var kernels []any
	var from setting.Value
	for _, k := range []struct{ key, kernel string }{
		{"liger_rope", "rope"}, {"liger_rms_norm", "rmsnorm"}, {"liger_glu_activation", "swiglu"},
		{"liger_swiglu", "swiglu"}, {"liger_layer_norm", "layernorm"},
	} {
		if v, ok := r.s.FirstOn(k.key); ok {
			kernels, from = append(kernels, k.kernel), v
		}
	}
	lora := false
	for _, key := range []string{"lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel"} {
		if v, ok := r.s.FirstOn(key); ok {
			lora, from = true, v
		}
	}
	if lora {
		kernels = append(kernels, "lora")
	}
	if len(kernels) > 0 {
		r.d.put("/training/kernels", kernels, from)
	}
	if v, ok := r.s.FirstOn("liger_cross_entropy"); ok {
		r.d.put("/training/loss", "fused", v)
	}
	if v, ok := r.s.FirstOn("liger_fused_linear_cross_entropy", "cut_cross_entropy"); ok {
		r.d.put("/training/loss", "fused-linear", v)
	}
	plugins, ok := s.Get("plugins")
	if !ok {
		return
	}
	for _, p := range plugins.Strings() {
		switch {
		case strings.Contains(p, "cut_cross_entropy"):
			if v, given := s.Get("cut_cross_entropy"); !given || v.On() {
				r.d.put("/training/loss", "fused-linear", plugins)
			}
		case strings.Contains(p, "liger"), strings.Contains(p, "lm_eval"), strings.Contains(p, "grokfast"):
		default:
			v := plugins
			v.Origin.Key = p
			r.d.askWord(v)
		}
	}
	s.Read("liger_*", "lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel", "lora_embedding_kernel")
}

// axolotlEvaluates says what there is to evaluate, if it is: eval_strategy "no" switches it off where no count of steps
// is given (axolotl 0.19.0 core/builders/base.py, _configure_save_and_eval_strategy; evals_per_epoch becomes eval_steps
// in utils/trainer.py).
func (r *reading) axolotlEvaluates() (setting.Value, bool) {
	strategy, said := r.s.Get("eval_strategy", "evaluation_strategy")
	steps, counted := r.s.Peek("eval_steps")
	perEpoch, timed := r.s.Peek("evals_per_epoch")
	if said && strings.EqualFold(strategy.String(), "no") && (!counted || steps.Off()) && (!timed || perEpoch.Off()) {
		r.s.Read("test_datasets", "val_set_size")
		return setting.Value{}, false
	}
	if v, ok := r.s.Get("test_datasets"); ok && !v.Off() {
		return v, true
	}
	v, ok := r.s.Get("val_set_size")
	return v, ok && !v.Off()
}
