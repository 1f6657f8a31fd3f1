// Package lever has what a plan can change of a job besides its pair: settings that leave training alone ([Neutral]),
// those that change it ([Changing], [Adapters], [SmallerModels]), and more of its card ([Spread]), each with what it
// does to the job, how the job's tool is asked for it, whose code it is and what it costs its user. A [Variant] is a
// set of them.
//
// Nothing here is estimated. A lever is made of the job document alone, and applies to a copy of it.
package lever
