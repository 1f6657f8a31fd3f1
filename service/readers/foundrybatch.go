package readers

import "strings"

// foundryBatch reads the batch of LLM Foundry, whose micro-batch may be found while it trains.
func (r *reading) foundryBatch() {
	const pointer = "/training/micro_batch"
	if v, ok := r.s.Get("device_train_microbatch_size"); !ok || strings.EqualFold(v.String(), "auto") {
		why := "device_train_microbatch_size is auto: it is halved until it fits"
		if at := v.Origin.At.Where(); at != "" {
			why = at + ": " + why
		}
		r.d.ask(pointer, askMicroBatch, why)
	} else {
		r.numberOf(pointer, askMicroBatch, v)
	}
	r.deviceBatch()
}

// deviceBatch derives the accumulation as LLM Foundry (utils/config_utils.py, update_batch_size_info) and OLMo
// (scripts/train.py) do: the batch of one GPU is the global one divided by the GPUs, a larger micro-batch is cut down
// to it, and the last one may be smaller.
func (r *reading) deviceBatch() {
	const pointer = "/training/micro_batch"
	global, ok := r.s.Get("global_train_batch_size")
	g, isInt := global.Int()
	micro, hasMicro := r.d.int(pointer)
	w := r.gpus()
	if !ok || !isInt || g < 1 || !hasMicro || !w.known {
		return
	}
	if g%w.n != 0 {
		r.notDivisible(global, g, w.n)
		return
	}
	device := g / w.n
	if micro > device {
		r.d.assume(pointer, "the micro-batch of %d is cut down to the %d sequences that one GPU has of the global batch", micro, device)
		r.d.derive(pointer, device, "%s %d / %d GPUs", global.Origin.Key, g, w.n)
		micro = device
	}
	r.d.derive("/training/gradient_accumulation", (device+micro-1)/micro, "%s %d / (%d × %d GPUs)", global.Origin.Key,
		g, micro, w.n)
}

// foundryShards reads composer's fsdp_config.
func (r *reading) foundryShards() {
	s := r.s
	at, _ := s.Peek("fsdp_config")
	r.d.put("/training/distributed/data", "fsdp", at)
	r.d.fall("/training/distributed/fsdp_version", int64(1), "fsdp_config", refComposer)
	if v, ok := s.Get("fsdp_config.sharding_strategy"); ok {
		r.strategy(v)
	} else {
		r.d.fall("/training/distributed/reshard_after_forward", true, "fsdp_config.sharding_strategy", refComposer)
	}
	if v, ok := r.s.FirstOn("fsdp_config.cpu_offload"); ok {
		r.d.put("/training/distributed/offload_parameters", true, v)
	}
	if v, ok := s.Get("fsdp_config.limit_all_gathers"); ok && v.Off() {
		r.d.put("/training/distributed/limit_all_gathers", false, v)
	}
	if v, ok := s.Get("fsdp_config.mixed_precision"); ok && v.String() != "PURE" && v.String() != "DEFAULT" {
		r.asksAll("fsdp_config.mixed_precision") // FULL gathers float32 weights
	}
	const pointer = "/training/gradient_checkpointing"
	v, ok := s.Get("fsdp_config.activation_checkpointing")
	offload, offloads := r.s.FirstOn("fsdp_config.activation_cpu_offload")
	switch {
	case !ok || !v.On():
		if offloads {
			r.d.refuse("unsupported", offload.Origin.At, "activation_cpu_offload without checkpointing is not modelled")
		}
		if ok {
			r.d.put(pointer, "none", v)
		} else {
			r.d.fall(pointer, "none", "fsdp_config.activation_checkpointing", refComposer)
		}
	case offloads:
		r.d.put(pointer, offloaded, offload)
	default:
		r.d.put(pointer, "full", v)
	}
	r.asksAll("fsdp_config.activation_checkpointing_target", "fsdp_config.tensor_parallel_degree",
		"fsdp_config.data_parallel_replicate_degree", "fsdp_config.te_checkpoint_wrapper")
	s.Read("fsdp_config.*")
}
