// Package accelerate reads a file of accelerate launch that was handed over alone.
package accelerate

import (
	"github.com/vramplan/vramplan/service/readers/shards"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads a file of accelerate launch that was handed over alone: it is a part of a job.
var Tool = tool.Tool{
	Name:  "accelerate",
	Marks: map[string]int{"compute_environment": 4, "distributed_type": 3, "num_processes": 1, "mixed_precision": 1},
	New:   func(j *tool.Job) tool.Reader { return &job{Job: shards.Of(j)} },
}

// job is one job on its way through this tool.
type job struct {
	shards.Job
}

// Read maps the settings to fields.
func (r *job) Read() {
	r.Accelerate = shards.Flat(r.In)
	r.Launcher = "accelerate"
	if v, ok := r.Accelerate.Get("mixed_precision"); ok {
		switch v.String() {
		case "bf16", "fp16":
			r.Out.Put("/training/precision", "amp-"+v.String(), v)
		}
	}
	r.Shards()
	r.In.Read("*")
}
