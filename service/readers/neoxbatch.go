package readers

import "strings"

// neoxWorld is num_gpus × num_nodes; DeepSpeed's launcher takes all GPUs of all hosts without them.
func (r *reading) neoxWorld() {
	s := r.s
	s.Read("hostfile", "include", "exclude", "launcher", "master_*", "deepspeed_slurm", "deepspeed_mpi")
	if v, ok := s.Get("global_num_gpus"); ok {
		r.fixed(known(v))
		return
	}
	nodes := count{n: 1, known: true}
	if v, ok := s.Get("num_nodes"); ok {
		nodes = known(v)
	}
	if v, ok := s.Get("num_gpus"); ok {
		r.fixed(times(known(v), nodes))
		return
	}
	r.fixed(r.visible("gpus", "no file says on how many GPUs: DeepSpeed's launcher takes all of all hosts"))
}

// neoxBatch joins the three numbers of DeepSpeed's batch as calculate_batch_parameters does: what is missing follows.
func (r *reading) neoxBatch(parallel int64) {
	const micro, steps = "/training/micro_batch", "/training/gradient_accumulation"
	s := r.s
	hasMicro := r.number(micro, askMicroBatch, "train_micro_batch_size_per_gpu")
	hasSteps := r.number(steps, askAccumulation, "gradient_accumulation_steps", "gas")
	global, ok := s.Get("train_batch_size")
	if !ok {
		return
	}
	w := r.gpus()
	g, isInt := global.Int()
	if !w.known || !isInt || w.n%parallel != 0 {
		return
	}
	if hasMicro && !hasSteps {
		r.accumulate(global, parallel)
		return
	}
	n := int64(1)
	if hasSteps {
		n, _ = r.d.int(steps)
	}
	data := w.n / parallel * max(n, 1)
	if g%data != 0 {
		r.notDivisible(global, g, data)
		return
	}
	if m, _ := r.d.int(micro); hasMicro && m*data != g {
		r.d.refuse("cannot-start", global.Origin.At, "train_batch_size %d is not %d × %d (micro-batch × accumulation "+
			"× data parallelism)", g, m, data)
		return
	}
	if !hasMicro {
		r.d.derive(micro, g/data, "train_batch_size %d / %d", g, data)
	}
}

// neoxPrecision reads precision, and DeepSpeed's fp16 and bf16. GPT-NeoX's older files have the type in fp16.type.
func (r *reading) neoxPrecision() {
	const pointer = "/training/precision"
	if v, ok := r.s.Get("precision"); ok {
		if name := dtype(v.String()); name != "" {
			r.d.put(pointer, name, v)
			return
		}
	}
	for _, name := range []string{"bf16", "fp16"} {
		if v, ok := r.s.FirstOn(name+".enabled", name+"."+name); ok {
			kind, from := name, v
			if t, given := r.s.Get("fp16.type"); given && name == "fp16" && dtype(t.String()) != "" {
				kind, from = dtype(t.String()), t
			}
			r.d.put(pointer, kind, from)
			return
		}
	}
	r.d.fall(pointer, "fp32", "fp16.enabled", refNeoX)
}

func (r *reading) neoxOptimizer() {
	v, ok := r.s.Get("optimizer.type", "optimizer_type")
	if !ok {
		r.d.fall("/training/optimizer", optimizer{"adamw", "fused"}, "optimizer.type", refNeoX)
		return
	}
	switch strings.ToLower(v.String()) {
	case "adam", "adamw": // FusedAdam, which decouples weight decay
		r.d.put("/training/optimizer", optimizer{"adamw", "fused"}, v)
	case "sgd":
		r.d.put("/training/optimizer", classes["SGD"], v)
	default:
		r.d.refuse("unsupported", v.Origin.At, "the optimizer %s is not modelled", v.String())
	}
}

// neoxOffload reads the offloading of DeepSpeed 0.3, which GPT-NeoX's files still have; the newer words are in the
// zero_optimization that the document has as it is.
func (r *reading) neoxOffload() {
	if v, ok := r.s.FirstOn("zero_optimization.cpu_offload"); ok {
		r.d.put("/training/distributed/offload_optimizer", true, v)
	}
}

func (r *reading) neoxCheckpointing(tp int64) {
	const pointer = "/training/gradient_checkpointing"
	s := r.s
	v, ok := s.Get("checkpoint_activations")
	switch offload, offloads := r.s.FirstOn("checkpoint_in_cpu"); {
	case !ok:
		r.d.fall(pointer, "none", "checkpoint_activations", refNeoX)
		return
	case !v.On():
		r.d.put(pointer, "none", v)
		return
	case offloads:
		r.d.put(pointer, offloaded, offload)
	default:
		r.d.put(pointer, "full", v)
	}
	if n, given := s.Get("checkpoint_num_layers"); given {
		if layers, isInt := n.Int(); !isInt || layers != 1 {
			r.asksAll("checkpoint_num_layers") // several layers are recomputed at a time
		}
	}
	if tp > 1 {
		r.asksAll("partition_activations")
	}
}

func (r *reading) neoxDropout() {
	hidden, ok := r.s.Get("hidden_dropout")
	attention, both := r.s.Get("attention_dropout")
	h, isNumber := hidden.Float()
	a, areNumbers := attention.Float()
	if ok && both && isNumber && areNumbers {
		r.d.put("/training/dropout", map[string]float64{"hidden": h, "attention": a}, hidden)
	}
}
