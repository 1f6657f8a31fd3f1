package readers

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// openInstructTool reads open-instruct's finetune.py: a loop of its own over accelerate.
var openInstructTool = tool{name: "open-instruct", starts: (*reading).openInstructStarts,
	read: (*reading).readOpenInstruct, words: trainerWords}

const refOpenInstruct = "open-instruct open_instruct/finetune.py FlatArguments"

func (r *reading) openInstructStarts() bool {
	name := r.program.Text
	if !strings.Contains(name, "open_instruct") || !strings.Contains(r.base(), "finetune") &&
		name != "open_instruct.finetune" {
		return false
	}
	s, positional, open := options(r.args, nil)
	for _, w := range open {
		r.openWord(w)
	}
	r.s = s
	r.configFile(positional)
	return true
}

func (r *reading) readOpenInstruct() {
	s := r.s
	if kind := objectiveOf(r.program.Text); kind != "" {
		r.refuseObjective(kind, r.at)
	}
	r.d.derive("/training/framework", "accelerate", "finetune.py is a loop of its own over accelerate")
	r.model("model_name_or_path")
	r.trainerBatch(trainerDefaults{})
	if !r.number("/training/sequence_length", askLength, "max_seq_length") {
		r.d.ask("/training/sequence_length", askLength, "max_seq_length is not given")
	}
	lora, isLoRA := r.s.FirstOn("use_lora", "use_qlora")
	if isLoRA {
		r.d.fall("/training/lora/rank", int64(64), "lora_rank", refOpenInstruct)
		r.number("/training/lora/rank", "Of which rank are the adapters?", "lora_rank")
		r.d.fall("/training/lora/dropout", 0.1, "lora_dropout", refOpenInstruct)
		if v, ok := s.Get("lora_dropout"); ok {
			if f, isFloat := v.Float(); isFloat {
				r.d.put("/training/lora/dropout", f, v)
			}
		}
		r.d.put("/training/lora/target_modules", []string{"q_proj", "o_proj", "v_proj", "k_proj", "gate_proj",
			"up_proj", "down_proj"}, lora)
	}
	r.shards()
	r.trainerPrecision(trainerDefaults{})
	if v, ok := r.s.FirstOn("use_qlora"); ok {
		r.d.put("/training/lora/base_precision", "nf4", v)
		r.d.put("/training/lora/double_quantization", true, v)
		r.d.put("/training/optimizer", optimizer{"paged-adamw", "bitsandbytes"}, v)
	} else {
		if isLoRA {
			r.d.put("/training/lora/base_precision", "bf16", lora)
		}
		r.d.fall("/training/optimizer", optimizer{"adamw", "foreach"}, "torch.optim.AdamW", refOpenInstruct)
		if v, ok := r.s.FirstOn("fused_optimizer"); ok {
			r.d.put("/training/optimizer", optimizer{"adamw", "fused"}, v)
		}
	}
	if v, ok := s.Get("gradient_checkpointing"); ok {
		r.d.put("/training/gradient_checkpointing", map[bool]string{true: "full", false: "none"}[v.On()], v)
	}
	if v, ok := s.Get("use_flash_attn"); ok && v.On() {
		r.d.put("/training/attention", "flash", v)
	}
	r.liger()
	s.Still(trainerStill...)
	s.Read(trainerAccepted...)
	r.loose(trainerLoose...)
	s.Read("lora_*", "use_slow_tokenizer", "with_tracking", "checkpointing_steps", "dataset_mixer*",
		"use_8bit_optimizer", "reduce_loss", "timeout", "exp_name")
	if v, ok := r.s.FirstOn("use_8bit_optimizer"); ok {
		r.d.put("/training/optimizer", optimizer{"adamw-8bit", "bitsandbytes"}, v)
	}
}

// verlTool reads verl's trainer for supervised fine-tuning: Hydra overrides over its own file.
var verlTool = tool{name: "verl", starts: (*reading).verlStarts, read: (*reading).readVerl}

func (r *reading) verlStarts() bool {
	if name := r.program.Text; !strings.HasPrefix(name, "verl.trainer.") || !strings.Contains(name, "sft_trainer") {
		return false
	}
	for _, w := range r.args {
		if w.open() {
			r.openWord(w)
		}
	}
	r.s = overrides(r.args)
	below := setting.New()
	for key, value := range map[string]any{"data.train_batch_size": int64(256), "data.max_length": int64(1024),
		"data.micro_batch_size_per_gpu": int64(4), "model.enable_gradient_checkpointing": true,
		"model.strategy": "fsdp"} {
		below.Set(key, setting.Value{Any: value, Origin: setting.Origin{Kind: setting.Default, Key: key,
			Ref: "verl 0.5 verl/trainer/config/sft_trainer.yaml"}})
	}
	if s, _, err := r.loadName("verl/trainer/config/sft_trainer.yaml"); err == nil {
		below.Over(s)
	}
	below.Over(r.s)
	r.s = below
	return true
}

func (r *reading) readVerl() {
	s := r.s
	interpolate(s)
	r.model("model.partial_pretrain")
	r.number("/training/micro_batch", askMicroBatch, "data.micro_batch_size_per_gpu", "data.micro_batch_size")
	r.number("/training/sequence_length", askLength, "data.max_length")
	if v, ok := s.Get("model.enable_gradient_checkpointing"); ok {
		r.d.put("/training/gradient_checkpointing", map[bool]string{true: "full", false: "none"}[v.On()], v)
	}
	strategy, _ := s.Get("model.strategy")
	r.d.put("/training/distributed/data", "fsdp", strategy)
	r.d.put("/training/distributed/fsdp_version", map[bool]int64{true: 2, false: 1}[strategy.String() == "fsdp2"],
		strategy)
	if v, ok := s.Get("model.lora_rank"); ok && !v.Off() {
		r.numberOf("/training/lora/rank", "Of which rank are the adapters?", v)
		if t, given := s.Get("model.target_modules"); given {
			r.d.put("/training/lora/target_modules", targets(t), t)
		}
	}
	r.d.fall("/training/precision", "amp-bf16", "mixed_precision",
		"verl 0.5 verl/trainer/fsdp_sft_trainer.py: float32 shards, bfloat16 gathered")
	if n := r.degree("/training/distributed/context_parallel", "ulysses_sequence_parallel_size"); n > 1 {
		v, _ := s.Get("ulysses_sequence_parallel_size")
		r.d.put("/training/distributed/context_parallel_kind", "ulysses", v)
	}
	if v, ok := r.s.FirstOn("model.fsdp_config.cpu_offload", "model.fsdp_config.offload_params"); ok {
		r.d.put("/training/distributed/offload_parameters", true, v)
	}
	if v, ok := r.s.FirstOn("model.use_liger"); ok {
		r.d.put("/training/loss", "fused-linear", v)
	}
	if v, ok := s.Get("data.train_batch_size"); ok {
		r.accumulate(v, r.degree("", "ulysses_sequence_parallel_size"))
	}
	s.Still(verlStill...)
	s.Read("trainer.total_epochs", "trainer.total_training_steps", "trainer.test_freq", "trainer.nnodes",
		"trainer.n_gpus_per_node", "trainer.resume_*", "trainer.device", "trainer.checkpoint*", "model.trust_remote_code",
		"model.external_lib", "use_remove_padding", "data.balance_dp_token", "data.train_batch_size",
		"model.fsdp_config.wrap_policy*", "model.target_modules*")
	r.loose(s.Rest()...)
}
