package objective

import "github.com/vramplan/vramplan/estimator/step"

// Reward is trl's RewardTrainer: pairs of sequences through a model with one label.
type Reward struct{ Pairs, Tokens int64 }

func (o Reward) shape() step.Shape { return step.Shape{Batch: 2 * o.Pairs, Tokens: o.Tokens} }

// Batch is input_ids and attention_mask of chosen and rejected sequences.
func (o Reward) Batch(t *step.Tape) []step.T {
	n := o.shape().N()
	return []step.T{t.Input(n, step.I64), t.Input(n, step.I64)}
}

// Forward passes all sequences at once. The score of each is that of its last token.
// Sources: trl/trainer/reward_trainer.py (RewardTrainer.compute_loss), 0.26 and 1.16; transformers/modeling_layers.py
// (GenericForSequenceClassification), 4.57.
func (o Reward) Forward(t *step.Tape, net step.Network, batch []step.T) step.T {
	score := func(t *step.Tape, hidden step.T, w, b step.Weight) step.T {
		each := t.Linear(hidden, w, b, step.LabelLogits)
		last := t.Made(2*o.Pairs, each.Dtype(), step.LabelLogits, true)
		pool := t.Replay([]step.T{each}, nil)
		pool.Alloc(0, each.Numel()*each.Dtype().Size(), step.LabelLogitsGradient)
		pool.Send(0, 0, false, false)
		last = last.Attached(pool.End(1))
		t.Drop(each)
		return last
	}
	out := t.Run(net, []step.T{batch[0], batch[1], step.NoTensor}, step.Pass{Shape: o.shape(), Head: score})
	loss := total(t, out.Logits)
	t.DropOutput(out)
	return loss
}

// Evaluating is the same on another number of pairs.
// Source: trl/trainer/reward_trainer.py (RewardTrainer.compute_loss), 0.26 and 1.16.
func (o Reward) Evaluating(microBatch int64) step.Objective {
	o.Pairs = microBatch
	return o
}
