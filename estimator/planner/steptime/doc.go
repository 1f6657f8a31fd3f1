// Package steptime is a model of how long an optimizer step takes. The front:
//
//	c := steptime.CardOf(gpu, precision)       // what a card does, unknowns filled in
//	w := steptime.Workload{…}                  // a candidate as the model sees it
//	seconds, waits := w.Step(c, reading)       // of steptime.Usual, or of Usual.Fitted(steps that were measured)
//
// It is a roofline (steptime.go) with what several GPUs tell each other on top (links.go). Answers are ratios under
// three readings of what no data sheet says, and the range is what they span.
package steptime
