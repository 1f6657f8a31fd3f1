package estimator

import "fmt"

// displayNote says of a job that fits on the card that was named that its display may want the room; of many cards it
// would be a list.
func displayNote(res *Result, j *Job, g *GPU, high int64) {
	fit := &res.GPUs[len(res.GPUs)-1]
	if spare := fit.UsableBytes - high; len(j.GPUs) == 1 && j.GPUs[0].Name != "*" && fit.Verdict == Fits &&
		spare < j.DisplayRoom(g) {
		res.Notes = append(res.Notes, Note{Code: "display", Text: fmt.Sprintf("%s leaves %s at the upper bound: where "+
			"the card drives a display, "+
			"its programs often hold 1 GiB; say in reserve_bytes (--reserve 300MiB) what is held, or display: "+
			"false (--no-display)", g.ID, Bytes(spare))})
	}
}
