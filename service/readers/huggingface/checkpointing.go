package huggingface

import (
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// checkpointedByCall puts the checkpoints that the program switches on by a call of its own, and reports whether it
// does. A call under a condition is left aside: without it the job is the larger one.
func (r *Job) checkpointedByCall() bool {
	const pointer = "/training/gradient_checkpointing"
	c, ok := r.Code.CheckpointsItself(r.Out.Text("/training/lora/base_precision"))
	if !ok {
		return false
	}
	at := setting.Span{File: r.Code.File, Line: c.Line}
	if r.Code.Conditional(c) {
		r.Out.Assume(pointer, "%s (%s) stands under a condition and is left aside: where it is reached, say --set "+
			"gradient_checkpointing=full", c.Name, at.Where())
		return false
	}
	kind, _ := c.Keywords.Get("gradient_checkpointing_kwargs.use_reentrant")
	r.Out.Put(pointer, draft.OfKind(kind), setting.Value{Text: "True",
		Origin: setting.Origin{Kind: setting.File, Key: c.Name, At: at}})
	return true
}
