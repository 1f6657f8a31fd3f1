package foundry

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// batch reads the batch of LLM Foundry, whose micro-batch may be found while it trains.
func (r *job) batch() {
	const pointer = "/training/micro_batch"
	if v, ok := r.In.Get("device_train_microbatch_size"); !ok || strings.EqualFold(v.String(), "auto") {
		why := "device_train_microbatch_size is auto: it is halved until it fits"
		if at := v.Origin.At.Where(); at != "" {
			why = at + ": " + why
		}
		r.Out.Ask(pointer, tool.AskMicroBatch, why)
	} else {
		r.NumberOf(pointer, tool.AskMicroBatch, v)
	}
	r.DeviceBatch()
}

// shards reads composer's fsdp_config.
func (r *job) shards() {
	s := r.In
	at, _ := s.Peek("fsdp_config")
	r.Out.Put("/training/distributed/data", "fsdp", at)
	r.Out.Fall("/training/distributed/fsdp_version", int64(1), "fsdp_config", refComposer)
	if v, ok := s.Get("fsdp_config.sharding_strategy"); ok {
		r.Strategy(v)
	} else {
		r.Out.Fall("/training/distributed/reshard_after_forward", true, "fsdp_config.sharding_strategy", refComposer)
	}
	if v, ok := r.In.FirstOn("fsdp_config.cpu_offload"); ok {
		r.Out.Put("/training/distributed/offload_parameters", true, v)
	}
	if v, ok := s.Get("fsdp_config.limit_all_gathers"); ok && v.Off() {
		r.Out.Put("/training/distributed/limit_all_gathers", false, v)
	}
	if v, ok := s.Get("fsdp_config.mixed_precision"); ok && v.String() != "PURE" && v.String() != "DEFAULT" {
		r.AsksAll("fsdp_config.mixed_precision") // FULL gathers float32 weights
	}
	const pointer = "/training/gradient_checkpointing"
	v, ok := s.Get("fsdp_config.activation_checkpointing")
	offload, offloads := r.In.FirstOn("fsdp_config.activation_cpu_offload")
	switch {
	case !ok || !v.On():
		if offloads {
			r.Out.Refuse("unsupported", offload.Origin.At, "activation_cpu_offload without checkpointing is not modelled")
		}
		if ok {
			r.Out.Put(pointer, "none", v)
		} else {
			r.Out.Fall(pointer, "none", "fsdp_config.activation_checkpointing", refComposer)
		}
	case offloads:
		r.Out.Put(pointer, draft.Offloaded, offload)
	default:
		r.Out.Put(pointer, "full", v)
	}
	r.AsksAll("fsdp_config.activation_checkpointing_target", "fsdp_config.tensor_parallel_degree",
		"fsdp_config.data_parallel_replicate_degree", "fsdp_config.te_checkpoint_wrapper")
	s.Read("fsdp_config.*")
}
