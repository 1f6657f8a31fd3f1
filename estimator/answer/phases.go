package answer

import (
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// phases are those of an optimizer step, and what a run does besides: loading, evaluations, checkpoints.
func (r Answerer) phases(run *resolved.Replayed) []result.Phase {
	l, list := run.Ledger, []result.Phase{}
	add := func(p result.Phase) { list = append(list, p) }
	step := func(name string, bytes int64) { add(result.Phase{Name: name, AllocatedBytes: bytes, InJob: true}) }
	step("load", l.Largest[play.StageLoad])
	step("forward", l.Largest[play.StageForward])
	step("loss", l.Largest[play.StageLoss])
	step("backward", l.Largest[play.StageBackward])
	step("optimizer", l.Largest[play.StageOptimizer])
	step("steady", l.Steady)
	evaluation := l.Largest[play.StageEvaluation]
	p := result.Phase{Name: "evaluation", AllocatedBytes: evaluation, InJob: evaluation > 0}
	if !p.InJob {
		p.How = "none is asked for; training.evaluation says with which micro-batch"
	}
	add(p)
	if most := l.Largest[play.StageGeneration]; most > 0 { // of the objectives that make such a pass
		step("generation", most)
	}
	if most := l.Largest[play.StageReference]; most > 0 {
		step("reference", most)
	}
	add(r.save(l))
	add(r.resume(l))
	return list
}

// save is writing a checkpoint. A state_dict refers to the tensors that are there, and what writes it copies one after
// another to the host, so that a GPU alone takes nothing for it. That is not so where tensors are
// gathered from others or put together anew for the file: then this is the least.
// Sources: torch/serialization.py (_save), safetensors/torch.py (_tobytes), transformers/trainer.py 4.57.6 and 5.23.0
// (Trainer._save_checkpoint).
func (r Answerer) save(l *play.Ledger) result.Phase {
	p := result.Phase{Name: "save", AllocatedBytes: l.Steady, InJob: r.Saves,
		AtLeast: !r.Alone() || r.Rewrites()}
	switch {
	case !r.Alone():
		p.How = "what stays between two optimizer steps; what is gathered of other GPUs for the file comes on top"
	case r.Rewrites():
		p.How = "what stays between two optimizer steps; experts are put into other tensors for the file, which come on top"
	default:
		p.How = "what stays between two optimizer steps: tensors are copied to the host one by one"
	}
	return p
}

// resume is reading a checkpoint before the first forward. On one GPU the Trainer reads it on the host, and what comes
// to the card is there once. Another loop may read all of it onto the card beside the model: then this is the
// least, as it is with several GPUs.
// Source: transformers/trainer.py 4.57.6 and 5.23.0 (Trainer._load_optimizer_and_scheduler, _load_from_checkpoint),
// torch/optim/optimizer.py (Optimizer.load_state_dict).
func (r Answerer) resume(l *play.Ledger) result.Phase {
	p := result.Phase{Name: "resume", AllocatedBytes: l.Resumed, InJob: r.Resumes,
		AtLeast: !r.Alone() || !r.By.EvaluatesAsTrainer() || r.Recipe.UpdatesInBackward,
		How:     "weights and the optimizer's states, which are there before the first forward"}
	if p.AtLeast {
		p.How += "; a checkpoint that is read onto the card beside them comes on top"
	}
	return p
}
