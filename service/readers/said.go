package readers

import (
	"encoding/json"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// apply lays what the user said over the draft, and takes back the questions that it answers.
func (r *reading) apply() {
	for _, said := range r.files.source.Set {
		r.d.say(said)
	}
	if r.files.source.GPUs > 0 {
		r.d.answered("/training/distributed/world_size")
	}
}

// topLevel are the fields of a document outside "training".
var topLevel = set("model", "training", "gpus", "reserve_bytes", "confidence")

func (d *draft) say(said Said) {
	path := said.Path
	switch first, _, _ := strings.Cut(path, "."); {
	case path == "model":
		path = "model.preset"
	case !topLevel[first]:
		path = "training." + path
	}
	pointer := "/" + strings.ReplaceAll(path, ".", "/")
	var value any = said.Value
	if json.Valid([]byte(said.Value)) {
		value = json.RawMessage(said.Value)
	}
	from := setting.Value{Text: said.Value, Origin: setting.Origin{Kind: setting.Said, Key: "--set"}}
	form, _, _ := strings.Cut(strings.TrimPrefix(pointer, "/model/"), "/")
	// one more field of the sizes that were read
	more := (form == "dimensions" || form == "nanogpt") && d.has("/model/"+form)
	if strings.HasPrefix(pointer, "/model/") && !more {
		d.drop("/model")
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
