// Package objective has the trainers of preferences, rewards and completions: what passes each makes of a model in a
// micro-step, what it computes of the logits, and what is alive meanwhile. Each is a [step.Objective] in a file of its
// own.
//
// What a pass allocates in the model is the model's business; what autograd does with a loss is the tape's.
package objective
