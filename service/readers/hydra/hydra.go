// Package hydra refuses programs that Hydra configures with classes of the user's own.
package hydra

import (
	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool refuses programs that Hydra configures with classes of the user's own.
var Tool = tool.Tool{
	Name:  "lightning",
	Marks: map[string]int{"_target_": 4, "accelerator": 2, "devices": 2, "max_epochs": 1, "min_epochs": 1},
	New:   func(j *tool.Job) tool.Reader { return &job{Job: j} },
}

// job is one job on its way through this tool.
type job struct {
	*tool.Job
}

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	if r.Launcher == "" || len(r.Args) == 0 {
		return false
	}
	s := argv.Overrides(r.Args)
	n := 0
	for _, w := range r.Args {
		if argv.IsOption(w.Text) {
			n++
		}
	}
	r.In = s
	return s.Len() > 0 && n*2 < len(r.Args)+1 && s.Any("trainer", "model", "experiment", "data", "data.batch_size",
		"trainer.devices", "trainer.max_epochs", "datamodule.batch_size")
}

// Read maps the settings to fields.
func (r *job) Read() {
	at := r.At
	if v, ok := r.In.Get("_target_", "trainer", "model", "accelerator"); ok && !at.Known() {
		at = v.Origin.At
	}
	r.Out.Refuse("own-model", at, "%s is a program that no reader knows, and its words (key=value, as Hydra takes them) "+
		"choose among configurations of its own: say what it trains in a job document", r.Program.Name())
}
