// Package verl reads verl's trainer for supervised fine-tuning.
package verl

import (
	"cmp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads verl's trainer for supervised fine-tuning: Hydra overrides over its own file.
var Tool = tool.Tool{Name: "verl", New: func(j *tool.Job) tool.Reader { return &job{Job: huggingface.Of(j)} },
	Still: stillText,
}

// job is one job on its way through this tool.
type job struct {
	huggingface.Job
}

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	if name := r.Program.Text; !strings.HasPrefix(name, "verl.trainer.") || !strings.Contains(name, "sft_trainer") {
		return false
	}
	for _, w := range r.Args {
		if w.Open() {
			r.OpenWord(w)
		}
	}
	r.In = argv.Overrides(r.Args)
	below := setting.New()
	for key, value := range map[string]any{"data.train_batch_size": int64(256), "data.max_length": int64(1024),
		"data.micro_batch_size_per_gpu": int64(4), "model.enable_gradient_checkpointing": true,
		"model.strategy": "fsdp"} {
		below.Set(key, setting.Value{Any: value, Origin: setting.Origin{Kind: setting.Default, Key: key,
			Ref: "verl 0.5 verl/trainer/config/sft_trainer.yaml"}})
	}
	if s, _, err := r.LoadName("verl/trainer/config/sft_trainer.yaml"); err == nil {
		below.Over(s)
	}
	below.Over(r.In)
	r.In = below
	return true
}

// Read maps the settings to fields.
func (r *job) Read() {
	s := r.In
	tool.Interpolate(s)
	r.Model("model.partial_pretrain")
	r.Number("/training/micro_batch", tool.AskMicroBatch, "data.micro_batch_size_per_gpu", "data.micro_batch_size")
	r.Number("/training/sequence_length", tool.AskLength, "data.max_length")
	if v, ok := s.Get("model.enable_gradient_checkpointing"); ok {
		r.Out.Put("/training/gradient_checkpointing", map[bool]string{true: "full", false: "none"}[v.On()], v)
	}
	strategy, _ := s.Get("model.strategy")
	r.Out.Put("/training/distributed/data", "fsdp", strategy)
	r.Out.Put("/training/distributed/fsdp_version", map[bool]int64{true: 2, false: 1}[strategy.String() == "fsdp2"],
		strategy)
	if v, ok := s.Get("model.lora_rank"); ok && !v.Off() {
		r.NumberOf("/training/lora/rank", "Of which rank are the adapters?", v)
		if t, given := s.Get("model.target_modules"); given {
			r.Out.Put("/training/lora/target_modules", models.Targets(t), t)
		}
	}
	r.Out.Fall("/training/precision", "amp-bf16", "mixed_precision",
		"verl 0.5 verl/trainer/fsdp_sft_trainer.py: float32 shards, bfloat16 gathered")
	if n := r.Degree("/training/distributed/context_parallel", "ulysses_sequence_parallel_size"); n > 1 {
		v, _ := s.Get("ulysses_sequence_parallel_size")
		r.Out.Put("/training/distributed/context_parallel_kind", "ulysses", v)
	}
	if v, ok := r.In.FirstOn("model.fsdp_config.cpu_offload", "model.fsdp_config.offload_params"); ok {
		r.Out.Put("/training/distributed/offload_parameters", true, v)
	}
	if v, ok := r.In.FirstOn("model.use_liger"); ok {
		// all of Liger's patch but its loss, which is made of logits here (verl 0.5 verl/trainer/fsdp_sft_trainer.py
		// _compute_loss_and_backward)
		kind := cmp.Or(models.Type(r.Launch, r.Out), "llama")
		if kernels := models.LigerKernels(models.Liger(kind)); len(kernels) > 0 {
			r.Out.Put("/training/kernels", kernels, v)
		}
	}
	if v, ok := s.Get("data.train_batch_size"); ok {
		r.Accumulate(v, r.Degree("", "ulysses_sequence_parallel_size"))
	}
	s.Still(still...)
	s.Read("trainer.total_epochs", "trainer.total_training_steps", "trainer.test_freq", "trainer.nnodes",
		"trainer.n_gpus_per_node", "trainer.resume_*", "trainer.device", "trainer.checkpoint*", "model.trust_remote_code",
		"model.external_lib", "use_remove_padding", "data.balance_dp_token", "data.train_batch_size",
		"model.fsdp_config.wrap_policy*", "model.target_modules*")
	r.Loose(s.Rest()...)
}
