// Package draft holds a job document in the making: its fields, each with its origin, what is asked, assumed, doubted
// and refused, and what the job needs at the least.
package draft

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// Field is one field of a draft.
type Field struct {
	Value  any
	Origin setting.Origin
	Text   string
}

// Word is the field's value where it is a word.
func (f Field) Word() string { s, _ := f.Value.(string); return s }

// Draft is a job document in the making: fields by their pointers, each with its origin.
type Draft struct {
	Reader  string
	Command *Place
	Fields  map[string]Field
	// Sources are the values that derived fields mostly hang on, for patches.
	Sources     map[string]setting.Value
	Questions   []Question
	Assumptions []Assumption
	Refusals    []Refusal
	Overridden  []setting.Value
	// In are the settings of the tool that were read, for patches; nil where none were. OwnProgram says that the tool's
	// own program is started, which takes all of the tool's words.
	In         *setting.Settings
	OwnProgram bool
	Ignored    []setting.Value
	Doubts     Doubts
	// Release is that of transformers, where a requirements.txt pins one.
	Release string
	// Components are those of the scheduler's job on which it runs.
	Components []int
	// Verbatim is the document of a job that is declared; nil for one that is read.
	Verbatim []byte
	// Ways are what the job may be instead, by decisions that only the environment knows; why says by which.
	Ways []*Draft
	Why  string
	// Strange are the doubts about the program that is run.
	Strange []Doubt
	// Exact says that the program trains with what the document says and with nothing less: its samples are as long,
	// and its loss keeps as much. floors are the fields that may be less all the same, with their least values, and
	// floorsWhy says why.
	Exact     bool
	floors    map[string]any
	floorsWhy []string
	// OlderLosses says that the tool runs on older releases of transformers, too, and that its loss is the model's own.
	// transformers' example scripts check for the release that they came with (check_min_version).
	OlderLosses bool
}

// New is a draft of a reader before anything is read.
func New(reader string) *Draft {
	return &Draft{Reader: reader, Fields: map[string]Field{}, Sources: map[string]setting.Value{}}
}

// Put sets a field from a value of the user's.
func (d *Draft) Put(pointer string, value any, from setting.Value) {
	if from.Assumed != "" {
		d.AssumeOf(Assumption{Pointer: pointer, Uncertain: true, Tainted: true,
			Say: fmt.Sprintf("%s is %s: %s", from.Origin.Key, from.Text, from.Assumed)})
	}
	d.Fields[pointer] = Field{Value: value, Origin: from.Origin, Text: from.Text}
}

// Fall sets a field to the tool's default. ref names the release, the file and the line.
func (d *Draft) Fall(pointer string, value any, key, ref string) {
	d.Fields[pointer] = Field{Value: value, Origin: setting.Origin{Kind: setting.Default, Key: key, Ref: ref}}
}

// Derive sets a field to what follows from others.
func (d *Draft) Derive(pointer string, value any, how string, args ...any) {
	d.Fields[pointer] = Field{Value: value, Origin: setting.Origin{Kind: setting.Derived,
		How: fmt.Sprintf(how, args...)}}
}

// Floor says what a field is at the least, and why it may be so little.
func (d *Draft) Floor(pointer string, value any, why string) {
	d.floorsWhy = append(d.floorsWhy, why)
	if d.floors == nil {
		d.floors = map[string]any{}
	}
	d.floors[pointer] = value
}

// Has reports whether a field, or one below it, is set.
func (d *Draft) Has(pointer string) bool {
	if _, ok := d.Fields[pointer]; ok {
		return true
	}
	for p := range d.Fields {
		if strings.HasPrefix(p, pointer+"/") {
			return true
		}
	}
	return false
}

// Drop removes a field and what is below it.
func (d *Draft) Drop(pointer string) {
	for p := range d.Fields {
		if p == pointer || strings.HasPrefix(p, pointer+"/") {
			delete(d.Fields, p)
		}
	}
}

// Int is a whole number that was set.
func (d *Draft) Int(pointer string) (int64, bool) {
	n, ok := d.Fields[pointer].Value.(int64)
	return n, ok
}

// Text is a word that was set; "" where it is none.
func (d *Draft) Text(pointer string) string { return d.Fields[pointer].Word() }

// Ask adds a question; of several about one field the first stays.
func (d *Draft) Ask(pointer, question, why string) {
	for _, q := range d.Questions {
		if q.Pointer == pointer && pointer != "/training" {
			return
		}
	}
	d.Questions = append(d.Questions, Question{Pointer: pointer, Ask: question, Why: why, Flag: flagOf(pointer)})
}

// AskWord asks what a word means that may change the memory and that the reader does not know.
func (d *Draft) AskWord(v setting.Value) {
	key := v.Origin.Key
	word := strings.TrimLeft(key, "-") // a flag takes no word with dashes
	d.Questions = append(d.Questions, Question{
		Pointer: "/training", Ask: fmt.Sprintf("What does %s do? It may change what is trained, or how it is stored, "+
			"and is not a word that this reader knows.", key),
		Why: v.Origin.At.Where(), Flag: fmt.Sprintf("--ignore %[1]s, or --set FIELD=VALUE and --ignore %[1]s", word),
		Word: word,
	})
}

// Assume says what was taken to be so.
func (d *Draft) Assume(pointer, say string, args ...any) {
	d.AssumeOf(Assumption{Pointer: pointer, Say: fmt.Sprintf(say, args...)})
}

// Settle is assume for what takes the same where it is not so.
func (d *Draft) Settle(pointer, say string, args ...any) {
	a := Assumption{Pointer: pointer, Say: fmt.Sprintf(say, args...), Settled: true}
	if !slices.Contains(d.Assumptions, a) {
		d.Assumptions = append(d.Assumptions, a)
	}
}

// Uncertain is assume for what may make the job larger where it is not so.
func (d *Draft) Uncertain(pointer, say string, args ...any) {
	d.AssumeOf(Assumption{Pointer: pointer, Say: fmt.Sprintf(say, args...), Uncertain: true})
}

// AssumeOf adds an assumption that is not there yet.
func (d *Draft) AssumeOf(a Assumption) {
	if !slices.Contains(d.Assumptions, a) {
		d.Assumptions = append(d.Assumptions, a)
	}
}

// Refuse says why there is no document. at is the place of the word that is in the way.
func (d *Draft) Refuse(code string, at setting.Span, say string, args ...any) {
	d.Refusals = append(d.Refusals, Refusal{File: at.File, Line: at.Line, Code: code, Say: fmt.Sprintf(say, args...),
		Reader: d.Reader})
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

// Rank sorts pointers as documents are written.
func Rank(pointer string) string {
	for i, prefix := range order {
		if pointer == prefix || strings.HasPrefix(pointer, prefix+"/") {
			return fmt.Sprintf("%02d%s", i, pointer)
		}
	}
	return "99" + pointer
}

// Document writes the fields as a job document, in the order of the contract.
func (d *Draft) Document() json.RawMessage {
	if d.Verbatim != nil {
		return d.Verbatim
	}
	pointers := make([]string, 0, len(d.Fields))
	for p := range d.Fields {
		pointers = append(pointers, p)
	}
	sort.Slice(pointers, func(a, b int) bool { return Rank(pointers[a]) < Rank(pointers[b]) })
	root := &object{}
	for _, p := range pointers {
		root.set(strings.Split(strings.TrimPrefix(p, "/"), "/"), d.Fields[p].Value)
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
