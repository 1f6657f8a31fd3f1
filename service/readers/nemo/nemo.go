// Package nemo refuses NeMo's own configurations by name.
package nemo

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/tool"
)

// marks are keys of the files of NeMo itself, whose models are classes of its own.
var marks = map[string]int{"exp_manager*": 3, "trainer.devices": 2, "model.micro_batch_size": 2,
	"model.global_batch_size": 2, "model.megatron_amp_O2": 4, "model.tensor_model_parallel_size": 2,
	"step_scheduler.local_batch_size": 4, "step_scheduler.global_batch_size": 2}

// Tool names NeMo's own configurations in order to refuse them.
var Tool = tool.Tool{
	Name: "nemo", Marks: marks,
	New: func(j *tool.Job) tool.Reader { return &job{Job: j} },
}

// job is one job on its way through this tool.
type job struct {
	*tool.Job
}

// Read maps the settings to fields.
func (r *job) Read() {
	v, _ := r.In.Get("model.micro_batch_size", "step_scheduler.local_batch_size", "trainer.devices")
	what := "NeMo"
	if strings.HasPrefix(v.Origin.Key, "step_scheduler") {
		what = "NeMo AutoModel"
	}
	r.Out.Refuse("model-kind", v.Origin.At, "%s's configuration is not read: its model and its engine are "+
		"classes of its own", what)
}
