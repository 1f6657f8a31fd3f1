package tool

import "github.com/vramplan/vramplan/service/readers/models"

// Model reads which model is trained.
func (r *Job) Model(keys ...string) {
	v, ok := r.In.Get(keys...)
	if !ok {
		r.Out.Ask("/model", "Which model is trained?", "nothing names it")
		return
	}
	models.Of(r.Launch, r.Out, v)
}
