package readers

import "strings"

// deepspeedTool reads a DeepSpeed configuration that was handed over alone: it is a part of a job.
var deepspeedTool = tool{
	name: "deepspeed",
	marks: map[string]int{"zero_optimization": 5, "train_micro_batch_size_per_gpu": 2, "train_batch_size": 1,
		"bf16.enabled": 1, "fp16.enabled": 1},
	read:  (*reading).readDeepSpeed,
	words: deepspeedWords,
}

func (r *reading) readDeepSpeed() {
	r.sharded = true
	r.deepspeedConfig(r.s)
	if v, ok := r.s.Get("train_micro_batch_size_per_gpu"); ok {
		if _, isInt := v.Int(); isInt {
			r.numberOf("/training/micro_batch", askMicroBatch, v)
		} else {
			r.d.ask("/training/micro_batch", askMicroBatch, v.Origin.At.Where()+
				" leaves it to the tool that uses the file")
		}
	}
	if v, ok := r.s.Get("gradient_accumulation_steps"); ok {
		if n, isInt := v.Int(); isInt {
			r.d.put("/training/gradient_accumulation", n, v)
		}
	}
	for _, name := range []string{"bf16", "fp16"} {
		if v, ok := r.s.Get(name + ".enabled"); ok && v.On() {
			r.d.put("/training/precision", name, v)
		}
	}
	if v, ok := r.s.Get("optimizer.type"); ok {
		if o, known := trainerOptimizers[strings.ToLower(v.String())]; known {
			r.d.put("/training/optimizer", o, v)
		} else if strings.EqualFold(v.String(), "adam") {
			r.d.put("/training/optimizer", optimizer{"adamw", "fused"}, v)
		}
	}
	r.s.Read("*")
}

// accelerateTool reads a file of accelerate launch that was handed over alone: it is a part of a job.
var accelerateTool = tool{
	name:  "accelerate",
	marks: map[string]int{"compute_environment": 4, "distributed_type": 3, "num_processes": 1, "mixed_precision": 1},
	read:  (*reading).readAccelerate,
}

func (r *reading) readAccelerate() {
	r.accelerate = flatAccelerate(r.s)
	r.launcher = "accelerate"
	if v, ok := r.accelerate.Get("mixed_precision"); ok {
		switch v.String() {
		case "bf16", "fp16":
			r.d.put("/training/precision", "amp-"+v.String(), v)
		}
	}
	r.shards()
	r.s.Read("*")
}
