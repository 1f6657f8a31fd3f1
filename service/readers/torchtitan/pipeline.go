package torchtitan

import (
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// In a pipeline torchtitan divides the batch of a GPU into micro-batches, and with several stages a GPU counts them by
// the layers of one.
const refTitanPipeline = "torchtitan 0.2.0 torchtitan/config/job_config.py Parallelism"

// layers are the layers of torchtitan's own flavors. Source: torchtitan/models/llama3/__init__.py, 0.2.0.
var layers = map[string]int64{"meta-llama/Llama-3.1-8B": 32, "meta-llama/Llama-3.1-70B": 80,
	"meta-llama/Llama-3.1-405B": 126}

// pipeline reads what a pipeline of so many GPUs does besides.
func (r *job) pipeline(gpus int64) {
	s := r.In
	if v, ok := s.Get("parallelism.pipeline_parallel_schedule"); ok {
		r.Out.Put("/training/distributed/pipeline_schedule", v.String(), v)
	}
	micro, from := int64(1), setting.Value{Any: int64(1), Origin: setting.Origin{Kind: setting.Default,
		Key: "parallelism.pipeline_parallel_microbatch_size", Ref: refTitanPipeline}}
	if v, ok := s.Get("parallelism.pipeline_parallel_microbatch_size"); ok {
		n, isInt := v.Int()
		if !isInt || n < 1 {
			r.Out.Ask("/training/micro_batch", tool.AskMicroBatch, v.Origin.At.Where())
			return
		}
		micro, from = n, v
	}
	if local, ok := r.Out.Int("/training/micro_batch"); ok {
		if local%micro != 0 {
			r.Out.Refuse("cannot-start", from.Origin.At, "the local batch of %d is no multiple of "+
				"pipeline_parallel_microbatch_size, %d", local, micro)
			return
		}
		r.Out.Put("/training/micro_batch", micro, from)
		r.Out.Derive("/training/gradient_accumulation", local/micro, "a local batch of %d in micro-batches of %d", local,
			micro)
	}
	r.virtual(gpus)
}

// virtual reads how many stages a GPU has: the layers, the embedding and the head, which count as one each,
// are dealt out over stages of so many. Source: torchtitan/distributed/pipeline_parallel.py (pipeline_llm), 0.2.0.
func (r *job) virtual(gpus int64) {
	const pointer, ends = "/training/distributed/virtual_pipeline", 2
	v, ok := r.In.Get("parallelism.pipeline_parallel_layers_per_stage")
	if !ok {
		return
	}
	each, isInt := v.Int()
	preset, _ := r.Out.Fields["/model/preset"].Value.(string)
	layers, known := layers[preset]
	switch {
	case !isInt || each < 1 || !known || each > layers+ends:
		r.Out.Ask(pointer, "How many stages does each GPU of the pipeline have?", v.Origin.At.Where())
	case (layers+ends+each-1)/each%gpus != 0:
		r.Out.Refuse("cannot-start", v.Origin.At, "%d layers a stage make %d stages, no multiple of %d GPUs", each,
			(layers+ends+each-1)/each, gpus)
	default:
		if stages := (layers + ends + each - 1) / each / gpus; stages > 1 {
			r.Out.Derive(pointer, stages, "(%d layers + 2) / %d a stage / %d GPUs", layers, each, gpus)
		}
	}
}
