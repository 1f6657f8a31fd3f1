package trainer

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// abbreviated are the Trainer's arguments that change memory, which argparse takes for what is left of them where only
// one begins so: --per_device_train_batch 4 (Python 3.12 argparse.py, allow_abbrev).
var abbreviated = []string{"per_device_train_batch_size", "per_device_eval_batch_size", "per_gpu_train_batch_size",
	"gradient_accumulation_steps", "gradient_checkpointing", "gradient_checkpointing_kwargs", "model_name_or_path",
	"attn_implementation", "label_smoothing_factor", "model_max_length", "max_seq_length", "max_source_length",
	"max_target_length", "deepspeed", "torch_dtype", "torch_compile"}

// shortest is how much of a name has to be there: less may be a program's own argument.
const shortest = 10

// whole gives abbreviated arguments their names. One that begins several names stays as it is, as does one whose whole
// name is given too.
func whole(s *setting.Settings) *setting.Settings {
	out := setting.New()
	for _, key := range s.Keys() {
		v, _ := s.Peek(key)
		name := key
		if len(key) >= shortest && !slices.Contains(abbreviated, key) {
			var begun []string
			for _, full := range slices.Concat(abbreviated, huggingface.Still, huggingface.Accepted,
				huggingface.Loose) {
				if strings.HasPrefix(full, key) {
					begun = append(begun, full)
				}
			}
			if len(begun) == 1 && !s.Has(begun[0]) {
				name = begun[0]
			}
		}
		out.Set(name, v)
	}
	return out
}
