package tool

import (
	"encoding/json"
	"slices"

	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/service/readers/draft"
)

// Fill takes from the table of defaults what the framework takes where neither a file nor the user says anything: the
// same rows by which a document is completed that names the framework and is as silent. What is asked for stays open.
func (r *Job) Fill() {
	var read job.Job
	if len(r.Out.Refusals) > 0 || json.Unmarshal(r.Out.Document(), &read) != nil {
		return // what is wrong with it is said where the document is checked
	}
	_, fills := defaults.Fills(read)
	for _, f := range fills {
		asked := slices.ContainsFunc(r.Out.Questions, func(q draft.Question) bool { return q.Pointer == f.Pointer })
		if asked || r.Out.Has(f.Pointer) {
			continue
		}
		r.Out.Fall(f.Pointer, Plain(f.Value), f.Row.Key, f.Row.String())
	}
}

// Plain is a value of the table as drafts have it.
func Plain(value any) any {
	switch v := value.(type) {
	case job.Optimizer:
		return draft.Optimizer{Name: v.Name, Implementation: v.Implementation}
	case job.Precision:
		return string(v)
	case job.Targets:
		return []string(v)
	}
	return value
}
