package draft

import (
	"encoding/json"
	"strings"

	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
)

// Say lays a field that the user gave over the draft, and takes back the questions that it answers.
func (d *Draft) Say(said source.Said) {
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
	more := (form == "dimensions" || form == "nanogpt") && d.Has("/model/"+form)
	if strings.HasPrefix(pointer, "/model/") && !more {
		d.dropModel()
		d.Answered("/model")
	}
	d.Drop(pointer)
	for i := len(pointer); i > 0; i = strings.LastIndexByte(pointer[:i], '/') { // a word for the whole object gives way
		delete(d.Fields, pointer[:i])
	}
	d.Put(pointer, value, from)
	d.Answered(pointer)
	if pointer == "/training/distributed/data" {
		d.Answered("/training/distributed")
		d.Answered("/training/distributed/deepspeed")
	}
}

// Answered takes back the question about a field.
func (d *Draft) Answered(pointer string) {
	kept := d.Questions[:0]
	for _, q := range d.Questions {
		if q.Pointer != pointer {
			kept = append(kept, q)
		}
	}
	d.Questions = kept
}

// HeadPointer is the field of what stands on top of a model.
const HeadPointer = "/model/head"

// dropModel removes the model, and leaves what the program puts on top of it.
func (d *Draft) dropModel() {
	for p := range d.Fields {
		if p == "/model" || strings.HasPrefix(p, "/model/") && !strings.HasPrefix(p, HeadPointer+"/") {
			delete(d.Fields, p)
		}
	}
}
