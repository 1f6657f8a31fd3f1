package axolotl

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// kernels reads attention, Liger and the plugins.
func (r *job) kernels() {
	s := r.In
	for _, a := range []struct{ key, kind string }{{"flash_attention", "flash"}, {"sdp_attention", "sdpa"},
		{"eager_attention", "eager"}} {
		if v, ok := r.In.FirstOn(a.key); ok {
			r.Out.Put("/training/attention", a.kind, v)
		}
	}
	if v, ok := s.Get("attn_implementation"); ok {
		r.AttentionOf(v)
	}
	for _, key := range []string{"xformers_attention", "flex_attention", "s2_attention"} {
		if v, ok := r.In.FirstOn(key); ok {
			r.Out.Assume("/training/attention", "%s (%s) takes what PyTorch's own attention takes", key,
				v.Origin.At.Where())
		}
	}
	var kernels []any
	var from setting.Value
	for _, k := range []struct{ key, kernel string }{
		{"liger_rope", "rope"}, {"liger_rms_norm", "rmsnorm"}, {"liger_glu_activation", "swiglu"},
		{"liger_swiglu", "swiglu"}, {"liger_layer_norm", "layernorm"},
	} {
		if v, ok := r.In.FirstOn(k.key); ok {
			kernels, from = append(kernels, k.kernel), v
		}
	}
	lora := false
	for _, key := range []string{"lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel"} {
		if v, ok := r.In.FirstOn(key); ok {
			lora, from = true, v
		}
	}
	if lora {
		kernels = append(kernels, "lora")
	}
	if len(kernels) > 0 {
		r.Out.Put("/training/kernels", kernels, from)
	}
	if v, ok := r.In.FirstOn("liger_cross_entropy"); ok {
		r.Out.Put("/training/loss", "fused", v)
	}
	if v, ok := r.In.FirstOn("liger_fused_linear_cross_entropy", "cut_cross_entropy"); ok {
		r.Out.Put("/training/loss", "fused-linear", v)
	}
	plugins, ok := s.Get("plugins")
	if !ok {
		return
	}
	for _, p := range plugins.Strings() {
		switch {
		case strings.Contains(p, "cut_cross_entropy"):
			if v, given := s.Get("cut_cross_entropy"); !given || v.On() {
				r.Out.Put("/training/loss", "fused-linear", plugins)
			}
		case strings.Contains(p, "liger"), strings.Contains(p, "lm_eval"), strings.Contains(p, "grokfast"):
		default:
			v := plugins
			v.Origin.Key = p
			r.Out.AskWord(v)
		}
	}
	s.Read("liger_*", "lora_mlp_kernel", "lora_qkv_kernel", "lora_o_kernel", "lora_embedding_kernel")
}

// evaluates says what there is to evaluate, if it is: eval_strategy "no" switches it off where no count of steps
// is given (axolotl 0.19.0 core/builders/base.py, _configure_save_and_eval_strategy; evals_per_epoch becomes eval_steps
// in utils/trainer.py).
func (r *job) evaluates() (setting.Value, bool) {
	strategy, said := r.In.Get("eval_strategy", "evaluation_strategy")
	steps, counted := r.In.Peek("eval_steps")
	perEpoch, timed := r.In.Peek("evals_per_epoch")
	if said && strings.EqualFold(strategy.String(), "no") && (!counted || steps.Off()) && (!timed || perEpoch.Off()) {
		r.In.Read("test_datasets", "val_set_size")
		return setting.Value{}, false
	}
	if v, ok := r.In.Get("test_datasets"); ok && !v.Off() {
		return v, true
	}
	v, ok := r.In.Get("val_set_size")
	return v, ok && !v.Off()
}
