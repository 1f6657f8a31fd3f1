package programs

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
)

// CheckpointsItself is the last call with which a program switches the trained model's checkpoints itself. The Trainer
// switches them on where its argument says so, and never off (transformers 4.57.6 trainer.py, _inner_training_loop).
func (p *Program) CheckpointsItself(base string) (last decode.Call, ok bool) {
	if p == nil {
		return last, false
	}
	trained := p.trainedVariable()
	if trained == "" {
		return last, false
	}
	for _, c := range p.Calls {
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
