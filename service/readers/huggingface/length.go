package huggingface

import (
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

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
