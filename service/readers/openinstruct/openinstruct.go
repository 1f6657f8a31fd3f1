// Package openinstruct reads open-instruct's finetune.py.
package openinstruct

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads open-instruct's finetune.py: a loop of its own over accelerate.
var Tool = tool.Tool{Name: "open-instruct", New: func(j *tool.Job) tool.Reader { return &job{Job: huggingface.Of(j)} }, Words: huggingface.Words}

// job is one job on its way through this tool.
type job struct {
	huggingface.Job
}

const refOpenInstruct = "open-instruct open_instruct/finetune.py FlatArguments"

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	name := r.Program.Text
	if !strings.Contains(name, "open_instruct") || !strings.Contains(r.Base(), "finetune") &&
		name != "open_instruct.finetune" {
		return false
	}
	s, positional, open := argv.Options(r.Args, nil)
	for _, w := range open {
		r.OpenWord(w)
	}
	r.In = s
	r.ConfigFile(positional)
	return true
}

// Read maps the settings to fields.
func (r *job) Read() {
	s := r.In
	if kind := tool.ObjectiveOf(r.Program.Text); kind != "" {
		r.RefuseObjective(kind, r.At)
	}
	r.Out.Derive("/training/framework", "accelerate", "finetune.py is a loop of its own over accelerate")
	r.Model("model_name_or_path")
	r.Batch(huggingface.Defaults{})
	if !r.Number("/training/sequence_length", tool.AskLength, "max_seq_length") {
		r.Out.Ask("/training/sequence_length", tool.AskLength, "max_seq_length is not given")
	}
	lora, isLoRA := r.In.FirstOn("use_lora", "use_qlora")
	if isLoRA {
		r.Out.Fall("/training/lora/rank", int64(64), "lora_rank", refOpenInstruct)
		r.Number("/training/lora/rank", "Of which rank are the adapters?", "lora_rank")
		r.Out.Fall("/training/lora/dropout", 0.1, "lora_dropout", refOpenInstruct)
		if v, ok := s.Get("lora_dropout"); ok {
			if f, isFloat := v.Float(); isFloat {
				r.Out.Put("/training/lora/dropout", f, v)
			}
		}
		r.Out.Put("/training/lora/target_modules", []string{"q_proj", "o_proj", "v_proj", "k_proj", "gate_proj",
			"up_proj", "down_proj"}, lora)
	}
	r.Shards()
	r.Precision(huggingface.Defaults{})
	if v, ok := r.In.FirstOn("use_qlora"); ok {
		r.Out.Put("/training/lora/base_precision", "nf4", v)
		r.Out.Put("/training/lora/double_quantization", true, v)
		r.Out.Put("/training/optimizer", draft.Optimizer{Name: "paged-adamw", Implementation: "bitsandbytes"}, v)
	} else {
		if isLoRA {
			r.Out.Put("/training/lora/base_precision", "bf16", lora)
		}
		r.Out.Fall("/training/optimizer", draft.Optimizer{Name: "adamw", Implementation: "foreach"}, "torch.optim.AdamW", refOpenInstruct)
		if v, ok := r.In.FirstOn("fused_optimizer"); ok {
			r.Out.Put("/training/optimizer", draft.Optimizer{Name: "adamw", Implementation: "fused"}, v)
		}
	}
	if v, ok := s.Get("gradient_checkpointing"); ok {
		r.Out.Put("/training/gradient_checkpointing", map[bool]string{true: "full", false: "none"}[v.On()], v)
	}
	if v, ok := s.Get("use_flash_attn"); ok && v.On() {
		r.Out.Put("/training/attention", "flash", v)
	}
	r.Liger()
	s.Still(huggingface.Still...)
	s.Read(huggingface.Accepted...)
	r.Loose(huggingface.Loose...)
	s.Read("lora_*", "use_slow_tokenizer", "with_tracking", "checkpointing_steps", "dataset_mixer*",
		"use_8bit_optimizer", "reduce_loss", "timeout", "exp_name")
	if v, ok := r.In.FirstOn("use_8bit_optimizer"); ok {
		r.Out.Put("/training/optimizer", draft.Optimizer{Name: "adamw-8bit", Implementation: "bitsandbytes"}, v)
	}
}
