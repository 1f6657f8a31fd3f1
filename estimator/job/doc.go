// Package job is the document that every entrance of vramplan takes: a model, how it is trained, where it should run.
//
// It knows the fields, their short forms, what each accepts by itself (the validator's tags), and what can be read off
// it without knowing a model: how GPUs are arranged ([Training.Mesh]), the kind of training, what of a card is left to
// the trainer ([Job.Aside]). What the fields mean together, and what is refused, is said where a job is resolved.
package job
