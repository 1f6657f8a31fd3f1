package huggingface

import (
	"fmt"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// dealtOut reads --deepspeed and --fsdp, and what accelerate launch says.
func (r *Job) dealtOut() {
	switch v, ok := r.In.Get("deepspeed"); {
	case !ok, v.Unknown == "" && v.Off():
	case v.Any == true:
		r.Out.Assume("/training/distributed", "%s without a file deals nothing out", v.Origin.Key)
	default:
		r.ReadDeepSpeed(v)
		r.agrees()
	}
	if v, ok := r.In.Get("fsdp"); ok && !v.Off() {
		r.FSDP(v)
	}
	r.In.Read("fsdp_config*", "fsdp_transformer_layer_cls_to_wrap", "fsdp_min_num_params", "ddp_find_unused_parameters")
	r.Shards()
}

// FSDP reads --fsdp "full_shard auto_wrap" and fsdp_config (transformers 4.57.6 training_args.py FSDPOption).
func (r *Job) FSDP(v setting.Value) {
	r.Sharded = true
	if v.Unknown != "" {
		r.Out.Ask("/training/distributed/data", "How does FSDP deal the model out?", v.Origin.At.Where()+": "+v.Unknown)
		return
	}
	words := v.Strings()
	if on, ok := v.Bool(); ok && on {
		words = []string{"full_shard"}
	}
	r.Out.Put("/training/distributed/data", "fsdp", v)
	// Without a version it is what the framework's release takes, which the job says or not.
	if c, ok := r.In.Get("fsdp_config.fsdp_version", "fsdp_config.version", "fsdp_version"); ok {
		if n, isInt := c.Int(); isInt {
			r.Out.Put("/training/distributed/fsdp_version", n, c)
		}
	}
	for _, w := range words {
		switch w {
		case "full_shard":
			r.Out.Put("/training/distributed/reshard_after_forward", true, v)
		case "shard_grad_op":
			r.Out.Put("/training/distributed/reshard_after_forward", false, v)
		case "offload":
			r.Out.Put("/training/distributed/offload_parameters", true, v)
		case "hybrid_shard", "hybrid_shard_zero2":
			r.Out.Ask("/training/distributed/data", "Over how many GPUs is one copy of the model dealt out?",
				v.Origin.At.Where()+" says "+w)
		case "no_shard":
			r.Out.Drop("/training/distributed")
		}
	}
	if c, ok := r.In.Get("fsdp_config"); ok && c.Unknown == "" && c.Text != "" && c.Any != nil { // a JSON file
		if s, _, err := r.Load(c); err != nil {
			r.Out.Ask("/training/distributed/data", fmt.Sprintf("What does %s say?", c.String()), c.Origin.At.Where())
		} else if s.On("activation_checkpointing", "fsdp_activation_checkpointing") {
			r.Out.Put("/training/gradient_checkpointing", "full", c)
		}
	}
	if r.In.On("fsdp_config.activation_checkpointing", "fsdp_config.fsdp_activation_checkpointing") {
		c, _ := r.In.Get("fsdp_config.activation_checkpointing", "fsdp_config.fsdp_activation_checkpointing")
		r.Out.Put("/training/gradient_checkpointing", "full", c)
	}
}

// agrees holds DeepSpeed's numbers against the Trainer's, which stops where they differ
// (transformers 4.57.6 integrations/deepspeed.py trainer_config_finalize: "Please correct the following …").
func (r *Job) agrees() {
	if r.DeepSpeed == nil {
		return
	}
	for key, pointer := range map[string]string{"train_micro_batch_size_per_gpu": "/training/micro_batch",
		"gradient_accumulation_steps": "/training/gradient_accumulation"} {
		v, ok := r.DeepSpeed.Get(key)
		n, isInt := v.Int()
		if mine, set := r.Out.Int(pointer); ok && isInt && set && mine != n {
			r.Out.Refuse("cannot-start", v.Origin.At, "%s is %d, and the Trainer has %d: it stops where its arguments "+
				"and DeepSpeed's file differ", key, n, mine)
		}
	}
}
