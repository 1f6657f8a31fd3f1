package neox

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// world is num_gpus × num_nodes; DeepSpeed's launcher takes all GPUs of all hosts without them.
func (r *job) world() {
	s := r.In
	s.Read("hostfile", "include", "exclude", "launcher", "master_*", "deepspeed_slurm", "deepspeed_mpi")
	if v, ok := s.Get("global_num_gpus"); ok {
		r.Fixed(launch.CountOf(v))
		return
	}
	nodes := launch.Count{N: 1, Known: true}
	if v, ok := s.Get("num_nodes"); ok {
		nodes = launch.CountOf(v)
	}
	if v, ok := s.Get("num_gpus"); ok {
		r.Fixed(launch.Times(launch.CountOf(v), nodes))
		return
	}
	r.Fixed(r.Visible("gpus", "no file says on how many GPUs: DeepSpeed's launcher takes all of all hosts"))
}

// batch joins the three numbers of DeepSpeed's batch as calculate_batch_parameters does: what is missing follows.
func (r *job) batch(parallel int64) {
	const micro, steps = "/training/micro_batch", "/training/gradient_accumulation"
	s := r.In
	hasMicro := r.Number(micro, tool.AskMicroBatch, "train_micro_batch_size_per_gpu")
	hasSteps := r.Number(steps, tool.AskAccumulation, "gradient_accumulation_steps", "gas")
	global, ok := s.Get("train_batch_size")
	if !ok {
		return
	}
	w := r.GPUs()
	g, isInt := global.Int()
	if !w.Known || !isInt || w.N%parallel != 0 {
		return
	}
	if hasMicro && !hasSteps {
		r.Accumulate(global, parallel)
		return
	}
	n := int64(1)
	if hasSteps {
		n, _ = r.Out.Int(steps)
	}
	data := w.N / parallel * max(n, 1)
	if g%data != 0 {
		r.NotDivisible(global, g, data)
		return
	}
	if m, _ := r.Out.Int(micro); hasMicro && m*data != g {
		r.Out.Refuse("cannot-start", global.Origin.At, "train_batch_size %d is not %d × %d (micro-batch × accumulation "+
			"× data parallelism)", g, m, data)
		return
	}
	if !hasMicro {
		r.Out.Derive(micro, g/data, "train_batch_size %d / %d", g, data)
	}
}

// precision reads precision, and DeepSpeed's fp16 and bf16. GPT-NeoX's older files have the type in fp16.type.
func (r *job) precision() {
	const pointer = "/training/precision"
	if v, ok := r.In.Get("precision"); ok {
		if name := draft.Dtype(v.String()); name != "" {
			r.Out.Put(pointer, name, v)
			return
		}
	}
	for _, name := range []string{"bf16", "fp16"} {
		if v, ok := r.In.FirstOn(name+".enabled", name+"."+name); ok {
			kind, from := name, v
			if t, given := r.In.Get("fp16.type"); given && name == "fp16" && draft.Dtype(t.String()) != "" {
				kind, from = draft.Dtype(t.String()), t
			}
			r.Out.Put(pointer, kind, from)
			return
		}
	}
	r.Out.Fall(pointer, "fp32", "fp16.enabled", refNeoX)
}

func (r *job) optimizer() {
	v, ok := r.In.Get("optimizer.type", "optimizer_type")
	if !ok {
		r.Out.Fall("/training/optimizer", draft.Optimizer{Name: "adamw", Implementation: "fused"}, "optimizer.type", refNeoX)
		return
	}
	switch strings.ToLower(v.String()) {
	case "adam", "adamw": // FusedAdam, which decouples weight decay
		r.Out.Put("/training/optimizer", draft.Optimizer{Name: "adamw", Implementation: "fused"}, v)
	case "sgd":
		r.Out.Put("/training/optimizer", tool.Classes["SGD"], v)
	default:
		r.Out.Refuse("unsupported", v.Origin.At, "the optimizer %s is not modelled", v.String())
	}
}

// offload reads the offloading of DeepSpeed 0.3, which GPT-NeoX's files still have; the newer words are in the
// zero_optimization that the document has as it is.
func (r *job) offload() {
	if v, ok := r.In.FirstOn("zero_optimization.cpu_offload"); ok {
		r.Out.Put("/training/distributed/offload_optimizer", true, v)
	}
}

func (r *job) checkpointing(tp int64) {
	const pointer = "/training/gradient_checkpointing"
	s := r.In
	v, ok := s.Get("checkpoint_activations")
	switch offload, offloads := r.In.FirstOn("checkpoint_in_cpu"); {
	case !ok:
		r.Out.Fall(pointer, "none", "checkpoint_activations", refNeoX)
		return
	case !v.On():
		r.Out.Put(pointer, "none", v)
		return
	case offloads:
		r.Out.Put(pointer, draft.Offloaded, offload)
	default:
		r.Out.Put(pointer, "full", v)
	}
	if n, given := s.Get("checkpoint_num_layers"); given {
		if layers, isInt := n.Int(); !isInt || layers != 1 {
			r.AsksAll("checkpoint_num_layers") // several layers are recomputed at a time
		}
	}
	if tp > 1 {
		r.AsksAll("partition_activations")
	}
}

func (r *job) dropout() {
	hidden, ok := r.In.Get("hidden_dropout")
	attention, both := r.In.Get("attention_dropout")
	h, isNumber := hidden.Float()
	a, areNumbers := attention.Float()
	if ok && both && isNumber && areNumbers {
		r.Out.Put("/training/dropout", map[string]float64{"hidden": h, "attention": a}, hidden)
	}
}
