package trl

import "github.com/vramplan/vramplan/service/readers/programs"

// Port is a trainer that another tool derives from trl's.
type Port struct {
	// Tool is whose it is.
	Tool string
	// Release is the release of trl whose trainer holds as much of the logits: the tool overrides what makes them, so
	// that the release beside it says nothing.
	Release string
	// Holds says what it holds besides, or otherwise, and that nobody has traced it.
	Holds string
}

// Ported reads an objective that another tool runs with a trainer which it derives from trl's. The job is that of trl's
// own trainer, and what the tool's holds otherwise is a doubt.
func (r *Job) Ported(kind string, p Port) {
	k := programs.Kinds[kind]
	r.pursues(kind, p.Tool+"'s trainer, which it derives from trl's "+k.Trainer)
	r.Out.Derive("/training/framework", "trl", "whose %s %s's is derived from", k.Trainer, p.Tool)
	r.Out.Derive("/training/versions/trl", p.Release, "the release of trl whose trainer holds as much of the logits")
	r.Out.Uncertain("/training/objective", "it takes what trl's %s takes: %s", k.Trainer, p.Holds)
	r.Out.Exact = false
	r.halves(k)
	r.takes(kind)
}

// halves makes a prompt and a completion of a length for both. Trainers that have all logits take the same however a
// sequence is divided: DPO, KTO and ORPO of trl 0.26.2 on Qwen2.5 1.5B with 64 + 1984 and 1984 + 64 tokens differ by
// less than 0.001 % of what is allocated.
func (r *Job) halves(k programs.Kind) {
	const pointer = "/training/objective"
	if !k.Pairs || k.Writes {
		return
	}
	length, known := r.Out.Int("/training/sequence_length")
	r.Out.Drop("/training/sequence_length")
	r.Out.Answered("/training/sequence_length")
	if !known || length < 2 {
		r.Out.Ask(pointer+"/prompt_tokens", "How many tokens has a prompt?", "no file says")
		r.Out.Ask(pointer+"/completion_tokens", "How many tokens has a completion?", "no file says")
		return
	}
	r.Out.Derive(pointer+"/prompt_tokens", length/2, "a half of %d tokens", length)
	r.Out.Derive(pointer+"/completion_tokens", length-length/2, "the rest of %d tokens", length)
	r.Out.Settle(pointer+"/prompt_tokens", "half of a sequence is prompt: how it is divided changes nothing of weight "+
		"where all logits are made")
}

// MismatchedPairs counts a micro-batch of one as two: trl's KTOTrainer makes its mismatched completions within the
// micro-batch and takes no single one (trl 0.26.2 trainer/kto_trainer.py), other tools make them before.
func (r *Job) MismatchedPairs(p Port) {
	const pointer = "/training/micro_batch"
	if n, ok := r.Out.Int(pointer); ok && n == 1 {
		f := r.Out.Fields[pointer]
		f.Value = int64(2)
		r.Out.Fields[pointer] = f
		r.Out.Assume(pointer, "a micro-batch of one counts as two, which is more: trl's KTOTrainer takes no single one, and "+
			"%s's does", p.Tool)
	}
}
