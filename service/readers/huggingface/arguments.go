package huggingface

import "slices"

// ModelArguments takes model_init_kwargs apart: what a program hands to from_pretrained wins over nothing else that it
// has (trl 1.16.0 trainer/sft_trainer.py, where it is given with a model's name). What is read elsewhere asks nothing.
func (r *Job) ModelArguments(readElsewhere ...string) {
	v, ok := r.In.Get("model_init_kwargs", "model_kwargs")
	if !ok {
		return
	}
	inner, ok := r.ObjectOf(v)
	if !ok {
		r.Out.AskWord(v)
		return
	}
	r.In.Read("model_init_kwargs*", "model_kwargs*")
	for _, key := range inner.Keys() {
		x, _ := inner.Peek(key)
		switch key {
		case "torch_dtype", "dtype", "attn_implementation", "load_in_4bit", "load_in_8bit":
			if !r.In.Has(key) {
				r.In.Set(key, x)
			}
		case "use_cache", "trust_remote_code", "revision", "low_cpu_mem_usage", "cache_dir", "token", "device_map":
		default:
			if !x.Off() && !slices.Contains(readElsewhere, key) {
				r.Out.AskWord(x)
			}
		}
	}
}
