// Package trl reads what trl's trainers take besides the Trainer's arguments: objectives, their lengths and
// references, and how a loss is computed.
package trl

import (
	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Job is a job that one of trl's trainers may run.
type Job struct{ huggingface.Job }

// Of is a job before anything is read of it.
func Of(j *tool.Job) Job { return Job{huggingface.Of(j)} }

// Default is where a default of TRL's stands.
func Default(key string) string {
	d, _ := defaults.Row("trl", key, "")
	return d.String()
}
