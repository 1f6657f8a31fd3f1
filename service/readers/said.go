package readers

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/tidwall/sjson"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// apply lays what the user said over the draft, and takes back the questions that it answers.
func (r *reading) apply() {
	for _, said := range r.files.source.Set {
		if wrong := unknownField(said); wrong != "" {
			r.d.refuse("unknown-field", setting.Span{}, "--set %s: %s", said.Path, wrong)
			continue
		}
		r.d.say(said)
	}
	ignored := set(r.files.source.Ignore...)
	r.d.questions = slices.DeleteFunc(r.d.questions, func(q Question) bool {
		return q.word != "" && (ignored[q.word] || ignored["--"+q.word])
	})
	if r.files.source.GPUs > 0 {
		r.d.answered("/training/distributed/world_size")
	}
}

// unknownField says what is wrong with a field that a job document does not have; "" where it has it.
func unknownField(said Said) string {
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

func (d *draft) say(said Said) {
	pointer := "/" + strings.ReplaceAll(jobdoc.PathOf(said.Path), ".", "/")
	var value any = said.Value
	if json.Valid([]byte(said.Value)) {
		value = json.RawMessage(said.Value)
	} else if pointer == "/gpus" {
		value = strings.Split(said.Value, ",")
	}
	from := setting.Value{Text: said.Value, Origin: setting.Origin{Kind: setting.Said, Key: "--set"}}
	form, _, _ := strings.Cut(strings.TrimPrefix(pointer, "/model/"), "/")
	// one more field of the sizes that were read
	more := (form == "dimensions" || form == "nanogpt") && d.has("/model/"+form)
	if strings.HasPrefix(pointer, "/model/") && !more {
		d.dropModel()
		d.answered("/model")
	}
	d.drop(pointer)
	for i := len(pointer); i > 0; i = strings.LastIndexByte(pointer[:i], '/') { // a word for the whole object gives way
		delete(d.fields, pointer[:i])
	}
	d.put(pointer, value, from)
	d.answered(pointer)
	if pointer == "/training/distributed/data" {
		d.answered("/training/distributed")
		d.answered("/training/distributed/deepspeed")
	}
}

// answered takes back the question about a field.
func (d *draft) answered(pointer string) {
	kept := d.questions[:0]
	for _, q := range d.questions {
		if q.Pointer != pointer {
			kept = append(kept, q)
		}
	}
	d.questions = kept
}
