package huggingface

import (
	"path"
	"slices"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// ConfigFile lays the file of --config, or the one that stands alone behind the program, under the arguments
// (trl 1.9 scripts/utils.py TrlParser; transformers 4.57.6 hf_argparser.py parse_json_file and parse_yaml_file). It is
// false where there is such a file and it cannot be read.
func (r *Job) ConfigFile(positional []argv.Word) bool {
	v, ok := r.In.Get("config", "config_file", "args_file")
	if !ok {
		if len(positional) == 0 {
			return true
		}
		switch path.Ext(positional[0].Text) {
		case ".yaml", ".yml", ".json":
		default:
			return true
		}
		v = positional[0].Argument("")
	}
	s, full, err := r.Load(v)
	if err != nil {
		r.Problems = append(r.Problems, func(*draft.Draft) { r.NotThere(v, err) })
		return false
	}
	r.File = full
	merged := s.Clone()
	merged.Over(r.In)
	merged.Read("config", "config_file", "args_file")
	r.In = merged
	return true
}

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

// LengthKeys are the names that programs give to the longest sequence, the Trainer's users' most common first.
var LengthKeys = []string{"model_max_length", "max_seq_length", "max_length", "block_size", "cutoff_len", "max_seq_len",
	"seq_length", "sequence_length", "seq_len", "max_len", "context_length"}

// Uncut asks for the length where a setting says that nothing is cut (trl 1.16.0 trainer/sft_config.py max_length:
// None).
func (r *Job) Uncut(s *setting.Settings) bool {
	for _, key := range LengthKeys {
		if v, ok := s.Peek(key); ok && !v.Given() {
			r.Out.Ask("/training/sequence_length", tool.AskLength, v.Origin.At.Where()+": "+key+
				" is none, so that the longest sample of the data decides")
			return true
		}
	}
	return false
}
