package finish

import (
	"errors"
	"slices"

	"github.com/tidwall/sjson"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
)

// apply lays what the user said over the draft, and takes back the questions that it answers.
func (r *closing) apply() {
	for _, said := range r.Files.Source.Set {
		if wrong := unknownField(said); wrong != "" {
			r.Out.Refuse("unknown-field", setting.Span{}, "--set %s: %s", said.Path, wrong)
			continue
		}
		r.Out.Say(said)
	}
	ignored := setting.SetOf(r.Files.Source.Ignore...)
	r.Out.Questions = slices.DeleteFunc(r.Out.Questions, func(q draft.Question) bool {
		return q.Word != "" && (ignored[q.Word] || ignored["--"+q.Word])
	})
	if r.Files.Source.GPUs > 0 {
		r.Out.Answered("/training/distributed/world_size")
	}
}

// unknownField says what is wrong with a field that a job document does not have; "" where it has it.
func unknownField(said source.Said) string {
	doc, err := sjson.SetBytes([]byte("{}"), jobdoc.PathOf(said.Path), said.Value)
	if err != nil {
		return err.Error()
	}
	_, err = jobdoc.Decode(doc)
	wrong, ok := errors.AsType[*invalid.Error](err)
	if !ok {
		return ""
	}
	for _, f := range wrong.Fields {
		if f.Code == jobdoc.CodeUnknownField {
			return f.Detail
		}
	}
	return ""
}
