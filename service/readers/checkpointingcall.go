package readers

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// checkpointsItself is the last call with which a program switches the trained model's checkpoints itself. The Trainer
// switches them on where its argument says so, and never off (transformers 4.57.6 trainer.py, _inner_training_loop).
func checkpointsItself(code *decode.Program, base string) (last decode.Call, ok bool) {
	if code == nil {
		return last, false
	}
	trained := trainedVariable(code)
	if trained == "" {
		return last, false
	}
	for _, c := range code.Calls {
		if c.Name == trained+".gradient_checkpointing_enable" || c.Name == trained+".gradient_checkpointing_disable" {
			last, ok = c, true
		}
		if preparesQuantized(c, base) {
			last, ok = c, true
		}
	}
	return last, ok && last.Name != trained+".gradient_checkpointing_disable"
}

// preparesQuantized is peft's preparation of a base that is loaded in 8 or 4 bits, which switches checkpoints on unless
// it is told not to (peft 0.18.0 utils/other.py, prepare_model_for_kbit_training).
func preparesQuantized(c decode.Call, base string) bool {
	if c.Name[strings.LastIndexByte(c.Name, '.')+1:] != "prepare_model_for_kbit_training" {
		return false
	}
	on, given := c.Keywords.Peek("use_gradient_checkpointing")
	if !given && len(c.Position) > 1 {
		on, given = c.Position[1], true
	}
	if given && !on.On() {
		return false
	}
	return base == "nf4" || base == "int8"
}

// checkpointedByCall puts the checkpoints that the program switches on by a call of its own, and reports whether it
// does. A call under a condition is left aside: without it the job is the larger one.
func (r *reading) checkpointedByCall() bool {
	const pointer = "/training/gradient_checkpointing"
	c, ok := checkpointsItself(r.code, r.d.text("/training/lora/base_precision"))
	if !ok {
		return false
	}
	at := setting.Span{File: r.code.File, Line: c.Line}
	if r.code.Conditional(c) {
		r.d.assume(pointer, "%s (%s) stands under a condition and is left aside: where it is reached, say --set "+
			"gradient_checkpointing=full", c.Name, at.Where())
		return false
	}
	kind, _ := c.Keywords.Get("gradient_checkpointing_kwargs.use_reentrant")
	r.d.put(pointer, ofKind(kind), setting.Value{Text: "True",
		Origin: setting.Origin{Kind: setting.File, Key: c.Name, At: at}})
	return true
}
