package objective

import "github.com/vramplan/vramplan/estimator/step"

// GKD is trl's GKDTrainer: the divergence of a student's completions from a teacher's, of all logits.
type GKD struct {
	Rows, Prompt, Completion int64
	// OneWay is which divergence is computed.
	OneWay Direction
	// Whole computes the divergence of prompts, too, of which nothing counts (trl from 1.15 on).
	Whole bool
	// Caches says that the student fills a key/value cache, CachesEvaluated that it does in an evaluation, where
	// nothing is checkpointed, TeacherCaches that the teacher does.
	Caches, CachesEvaluated, TeacherCaches bool
}

// Direction is between what a divergence is computed.
type Direction uint8

// The directions: of teacher and student from a mixture of both, of the teacher from the student (beta 0), and of the
// student from the teacher (beta 1).
const (
	BothWays Direction = iota
	FromTeacher
	FromStudent
)

// Unfolds says that every layer is played: the teacher has other layers than the student.
func (o GKD) Unfolds() bool { return true }

// Passes is how often layers are run in a micro-step: the student's, and a teacher's, which may be deeper.
func (o GKD) Passes() int64 { return 3 }

func (o GKD) shape() step.Shape { return step.Shape{Batch: o.Rows, Tokens: o.Prompt + o.Completion} }

// Batch is ids, masks and labels, and ids and masks of the prompts.
func (o GKD) Batch(t *step.Tape) []step.T {
	n, prompts := o.shape().N(), o.Rows*o.Prompt
	return []step.T{t.Input(n, step.I64), t.Input(n, step.I64), t.Input(n, step.I64), t.Input(prompts, step.I64),
		t.Input(prompts, step.I64)}
}

// Forward is a pass of the student and one of the teacher, whose logits all stay until the loss is there. Then what the
// allocator has cached is given back. Source: trl/experimental/gkd/gkd_trainer.py (GKDTrainer.compute_loss), 0.26 and
// 1.16.
func (o GKD) Forward(t *step.Tape, net step.Network, batch []step.T) step.T {
	inputs := []step.T{batch[0], batch[1], step.NoTensor}
	student := t.Run(net, inputs, step.Pass{Shape: o.shape(), Caches: o.Caches})
	var teacher step.Output
	t.As(step.PassReference, func() {
		teacher = t.Run(t.Companions[0], inputs, step.Pass{Shape: o.shape(), WithoutGraph: true, Evaluating: true,
			Caches: o.TeacherCaches})
	})
	loss := o.divergence(t, student.Logits, teacher.Logits.Dtype())
	t.ReleaseCached()
	t.DropOutput(student)
	t.DropOutput(teacher)
	return loss
}

// divergence is generalized_jsd_loss of the completions' logits, of which the teacher's are of a type of their own.
// Sources: the same file (generalized_jsd_loss); aten/src/ATen/native/Loss.cpp (kl_div), torch 2.9.
func (o GKD) divergence(t *step.Tape, logits step.T, taught step.DType) step.T {
	tokens, d := o.Rows*o.Completion, logits.Dtype()
	if o.Whole {
		tokens = o.Rows * (o.Prompt + o.Completion - 1)
	}
	width := logits.Numel() / o.shape().N()
	n := tokens * width
	scaled := mapped(t, logits.Sized(n, d, slicedEdge(t, logits))) // by the temperature
	other := wide(t, n, taught, step.LabelLogits)
	student := wideLogSoftmax(t, scaled)
	teacher := wide(t, n, taught, step.LabelLogProbabilities)
	var jsd step.T
	var variables []step.T
	switch o.OneWay {
	case FromTeacher:
		jsd = klDivergence(t, student, teacher, student)
	case FromStudent:
		jsd = klDivergence(t, teacher, student, student)
	default:
		mixture := mixed(t, student, teacher)
		fromTeacher := klDivergence(t, mixture, teacher, mixture)
		fromStudent := klDivergence(t, mixture, student, mixture, student)
		a, b := mapped(t, fromTeacher), mapped(t, fromStudent)
		jsd = added(t, a, b)
		t.Drop(a, b)
		variables = []step.T{mixture, fromTeacher, fromStudent}
	}
	mask := t.Input(tokens, step.Bool)
	chosen := chosenRows(t, jsd, mask, o.Rows*o.Completion)
	t.Drop(jsd)
	loss := summed(t, chosen)
	for _, x := range append([]step.T{scaled, other, student, teacher, chosen}, append(variables, mask)...) {
		t.Drop(x)
	}
	return loss
}

// Evaluating is the same on another number of sequences, without checkpoints that keep the student from filling a
// cache.
func (o GKD) Evaluating(microBatch int64) step.Objective {
	o.Rows, o.Caches = microBatch, o.CachesEvaluated
	return o
}
