package readers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// field is one field of a draft.
type field struct {
	value  any
	origin setting.Origin
	text   string
}

// word is the field's value where it is a word.
func (f field) word() string { s, _ := f.value.(string); return s }

// draft is a job document in the making: fields by their pointers, each with its origin.
type draft struct {
	reader  string
	command *Place
	fields  map[string]field
	// sources are the values that derived fields mostly hang on, for patches.
	sources     map[string]setting.Value
	questions   []Question
	assumptions []Assumption
	refusals    []Refusal
	overridden  []setting.Value
	ignored     []setting.Value
	doubts      doubts
	// release is that of transformers, where a requirements.txt pins one.
	release string
	// components are those of the scheduler's job on which it runs.
	components []int
	// verbatim is the document of a job that is declared; nil for one that is read.
	verbatim []byte
	// ways are what the job may be instead, by decisions that only the environment knows; why says by which.
	ways []*draft
	why  string
	// strange are the doubts about the program that is run.
	strange []Doubt
	// exact says that the program trains with what the document says and with nothing less: its samples are as long,
	// and its loss keeps as much. floors are the fields that may be less all the same, with their least values, and
	// floorsWhy says why.
	exact     bool
	floors    map[string]any
	floorsWhy []string
}

func newDraft(reader string) *draft {
	return &draft{reader: reader, fields: map[string]field{}, sources: map[string]setting.Value{}}
}

// put sets a field from a value of the user's.
func (d *draft) put(pointer string, value any, from setting.Value) {
	if from.Assumed != "" {
		d.assumeOf(Assumption{Pointer: pointer, Uncertain: true, tainted: true,
			Say: fmt.Sprintf("%s is %s: %s", from.Origin.Key, from.Text, from.Assumed)})
	}
	d.fields[pointer] = field{value: value, origin: from.Origin, text: from.Text}
}

// fall sets a field to the tool's default. ref names the release, the file and the line.
func (d *draft) fall(pointer string, value any, key, ref string) {
	d.fields[pointer] = field{value: value, origin: setting.Origin{Kind: setting.Default, Key: key, Ref: ref}}
}

// derive sets a field to what follows from others.
func (d *draft) derive(pointer string, value any, how string, args ...any) {
	d.fields[pointer] = field{value: value, origin: setting.Origin{Kind: setting.Derived,
		How: fmt.Sprintf(how, args...)}}
}

// floor says what a field is at the least, and why it may be so little.
func (d *draft) floor(pointer string, value any, why string) {
	d.floorsWhy = append(d.floorsWhy, why)
	if d.floors == nil {
		d.floors = map[string]any{}
	}
	d.floors[pointer] = value
}

// has reports whether a field, or one below it, is set.
func (d *draft) has(pointer string) bool {
	if _, ok := d.fields[pointer]; ok {
		return true
	}
	for p := range d.fields {
		if strings.HasPrefix(p, pointer+"/") {
			return true
		}
	}
	return false
}

// drop removes a field and what is below it.
func (d *draft) drop(pointer string) {
	for p := range d.fields {
		if p == pointer || strings.HasPrefix(p, pointer+"/") {
			delete(d.fields, p)
		}
	}
}

// int is a whole number that was set.
func (d *draft) int(pointer string) (int64, bool) {
	n, ok := d.fields[pointer].value.(int64)
	return n, ok
}

// text is a word that was set; "" where it is none.
func (d *draft) text(pointer string) string { return d.fields[pointer].word() }

// ask adds a question; of several about one field the first stays.
func (d *draft) ask(pointer, question, why string) {
	for _, q := range d.questions {
		if q.Pointer == pointer && pointer != "/training" {
			return
		}
	}
	d.questions = append(d.questions, Question{Pointer: pointer, Ask: question, Why: why, Flag: flagOf(pointer)})
}

// askWord asks what a word means that may change the memory and that the reader does not know.
func (d *draft) askWord(v setting.Value) {
	key := v.Origin.Key
	word := strings.TrimLeft(key, "-") // a flag takes no word with dashes
	d.questions = append(d.questions, Question{
		Pointer: "/training", Ask: fmt.Sprintf("What does %s do? It may change what is trained, or how it is stored, "+
			"and is not a word that this reader knows.", key),
		Why: v.Origin.At.Where(), Flag: fmt.Sprintf("--ignore %[1]s, or --set FIELD=VALUE and --ignore %[1]s", word),
		word: word,
	})
}

func (d *draft) assume(pointer, say string, args ...any) {
	d.assumeOf(Assumption{Pointer: pointer, Say: fmt.Sprintf(say, args...)})
}

// settle is assume for what takes the same where it is not so.
func (d *draft) settle(pointer, say string, args ...any) {
	a := Assumption{Pointer: pointer, Say: fmt.Sprintf(say, args...), Settled: true}
	if !slices.Contains(d.assumptions, a) {
		d.assumptions = append(d.assumptions, a)
	}
}

// uncertain is assume for what may make the job larger where it is not so.
func (d *draft) uncertain(pointer, say string, args ...any) {
	d.assumeOf(Assumption{Pointer: pointer, Say: fmt.Sprintf(say, args...), Uncertain: true})
}

func (d *draft) assumeOf(a Assumption) {
	if !slices.Contains(d.assumptions, a) {
		d.assumptions = append(d.assumptions, a)
	}
}

// refuse says why there is no document. at is the place of the word that is in the way.
func (d *draft) refuse(code string, at setting.Span, say string, args ...any) {
	d.refusals = append(d.refusals, Refusal{File: at.File, Line: at.Line, Code: code, Say: fmt.Sprintf(say, args...),
		Reader: d.reader})
}

// flagOf is the flag with which a question is answered.
func flagOf(pointer string) string {
	switch pointer {
	case "/model":
		return "--hf-config config.json, or --set model=NAME"
	case "/training/distributed/world_size":
		return "--gpus N"
	case "/training/distributed/deepspeed":
		return "--set training.distributed.data=zero2, or hand over the DeepSpeed file too"
	case "/training":
		return "--set FIELD=VALUE"
	}
	return "--set " + strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", ".") + "=N"
}

// order is the order of a document's fields.
var order = []string{
	"/model", "/training/micro_batch", "/training/sequence_length", "/training/target_sequence_length",
	"/training/gradient_accumulation",
	"/training/precision", "/training/states", "/training/optimizer", "/training/gradient_checkpointing",
	"/training/attention", "/training/loss",
	"/training/kernels", "/training/compile", "/training/dropout", "/training/lora", "/training/distributed",
	"/training/evaluation",
	"/training/framework", "/training/versions", "/training", "/gpus", "/reserve_bytes",
}

// rank sorts pointers as documents are written.
func rank(pointer string) string {
	for i, prefix := range order {
		if pointer == prefix || strings.HasPrefix(pointer, prefix+"/") {
			return fmt.Sprintf("%02d%s", i, pointer)
		}
	}
	return "99" + pointer
}

// document writes the fields as a job document, in the order of the contract.
func (d *draft) document() json.RawMessage {
	if d.verbatim != nil {
		return d.verbatim
	}
	pointers := make([]string, 0, len(d.fields))
	for p := range d.fields {
		pointers = append(pointers, p)
	}
	sort.Slice(pointers, func(a, b int) bool { return rank(pointers[a]) < rank(pointers[b]) })
	root := &object{}
	for _, p := range pointers {
		root.set(strings.Split(strings.TrimPrefix(p, "/"), "/"), d.fields[p].value)
	}
	var b bytes.Buffer
	root.write(&b)
	return b.Bytes()
}

// object is a JSON object that keeps its order.
type object struct {
	keys   []string
	values map[string]any
}

func (o *object) set(path []string, value any) {
	if o.values == nil {
		o.values = map[string]any{}
	}
	old, ok := o.values[path[0]]
	if !ok {
		o.keys = append(o.keys, path[0])
	}
	if len(path) == 1 {
		o.values[path[0]] = value
		return
	}
	child, isObject := old.(*object)
	if !isObject {
		child = &object{}
		o.values[path[0]] = child
	}
	child.set(path[1:], value)
}

func (o *object) write(b *bytes.Buffer) {
	b.WriteByte('{')
	for i, k := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(k)
		b.Write(name)
		b.WriteByte(':')
		if child, ok := o.values[k].(*object); ok {
			child.write(b)
			continue
		}
		value, err := json.Marshal(o.values[k])
		if err != nil { // nothing that a decoder gives cannot be written
			value = []byte("null")
		}
		b.Write(value)
	}
	b.WriteByte('}')
}
