package main

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/vramplan/vramplan/cmd/vramplan/localcards"
	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// jobFlags say what the job is: a file, flags that build a document, or both,
// where a flag replaces what the file says. Values that need knowledge of the
// job document are strings here; its one reader judges them, so that a flag and
// a field get the same message.
type jobFlags struct {
	File string `short:"f" placeholder:"FILE" help:"Job document, or NDJSON with one job a line; - reads standard input." group:"Job:"`

	jobFields `embed:""`
}

// jobSize is a size in a job document, which has it in bytes.
type jobSize int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *jobSize) UnmarshalText(text []byte) error {
	var n byteCount
	err := n.UnmarshalText(text)
	if err == nil && n > 0 && n < 1<<20 { // no process holds so little: a unit was left out
		unit := "GiB"
		if n > 200 { // more than any card has
			unit = "MiB"
		}
		err = fmt.Errorf("%d bytes, which is less than anything on a card holds: give a unit, such as %[1]d%s", n, unit)
	}
	*b = jobSize(n)
	return err
}

// qloraRank is that of the adapters which plan offers.
const qloraRank = 16

// edit is one field of a job document and the value that a flag gives it.
type edit struct {
	path  string // in gjson's syntax
	value any
	// absent says that what the document says wins.
	absent bool
	// further says that the value is one more of a list.
	further bool
	// field and text are what --set says in place of path and value.
	field, text string
}

// pairsOf are the edits of --set.
func pairsOf(pairs []string) (list []edit, err error) {
	for _, pair := range pairs {
		field, text, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, usage("--set %s: FIELD=VALUE is accepted, such as --set distributed.tensor_parallel=2", pair)
		}
		if _, err := jobdoc.Set([]byte("{}"), field, text); err != nil {
			return nil, usage("--set %s: %v", pair, err)
		}
		list = append(list, edit{field: field, text: text})
	}
	return list, nil
}

// edits lists what the flags say, in the order of the document.
func (f *jobFields) edits(ctx context.Context, t *terminal) ([]edit, error) {
	list, err := f.models(t)
	if err != nil {
		return nil, err
	}
	if f.Pipeline != "" {
		list = append(list, kindIfNone("diffusion"))
	}
	for _, part := range []any{f.modelFields, f.kindFields, f.spreadFields, f.cardFields} {
		list = append(list, editsOf(part)...)
	}
	if i := slices.IndexFunc(list, func(e edit) bool { return e.path == "gpus" }); i >= 0 {
		if list[i].value, err = t.withLocal(ctx, f.GPU); err != nil {
			return nil, err
		}
	}
	if f.Teacher != "" {
		teacher, err := jsonFile(t, "--teacher", f.Teacher)
		if err != nil {
			return nil, err
		}
		list = append(list, kindIfNone("gkd"),
			edit{path: "training.objective.teacher", value: map[string]json.RawMessage{
				"hf_config": teacher}})
	}
	if f.DeepSpeed != "" {
		config, err := jsonFile(t, "--deepspeed", f.DeepSpeed)
		if err != nil {
			return nil, err
		}
		if zero := gjson.GetBytes(config, "zero_optimization"); zero.IsObject() {
			config = json.RawMessage(zero.Raw)
		}
		list = append(list, edit{path: "training.distributed.deepspeed", value: config})
		if stage := gjson.GetBytes(config, "stage").Int(); stage >= 1 && stage <= 3 {
			list = append(list, edit{path: "training.distributed.data", value: fmt.Sprintf("zero%d", stage),
				absent: true})
		}
	}
	if f.QLoRA {
		if f.LoRABase != nil && *f.LoRABase != "nf4" {
			return nil, usage("--qlora stores the base as nf4, and --lora-base %s says otherwise: leave one of them out; "+
				"without --qlora, --lora-rank %d trains adapters on a base of %s", *f.LoRABase, qloraRank, *f.LoRABase)
		}
		list = append(list,
			edit{path: "training.lora.base_precision", value: "nf4"}, edit{path: "training.lora.double_quantization",
				value: true},
			edit{path: "training.lora.rank", value: qloraRank, absent: true},
			edit{path: "training.lora.target_modules", value: "all-linear", absent: true})
	}
	return list, nil
}

// models are what the flags say of the model, of which kong takes one.
func (f *jobFields) models(t *terminal) (list []edit, err error) {
	if f.Model != "" {
		list = append(list, edit{path: "model", value: map[string]string{"preset": f.Model}})
	}
	for _, file := range []struct{ flag, name, form string }{{"--hf-config", f.HFConfig, "hf_config"},
		{"--recorded", f.Recorded, "recorded"}} {
		if file.name == "" {
			continue
		}
		text, err := jsonFile(t, file.flag, file.name)
		if err != nil {
			return nil, err
		}
		list = append(list, edit{path: "model", value: map[string]json.RawMessage{file.form: text}})
	}
	if f.Pipeline != "" {
		list = append(list, edit{path: "model", value: map[string]any{"diffusion": map[string]string{
			"preset": f.Pipeline}}})
	}
	return list, nil
}

// jsonFile is the file that a flag names.
func jsonFile(t *terminal, flag, name string) (json.RawMessage, error) {
	text, err := t.readFile(name)
	if err != nil {
		return nil, err
	}
	config, ok := jobdoc.Configuration(text)
	if !ok {
		return nil, usage("%s %s: not a JSON document", flag, name)
	}
	return config, nil
}

// kindIfNone is a kind of training where the document says none.
func kindIfNone(kind string) edit {
	return edit{path: "training.objective.kind", value: kind, absent: true}
}

// editsOf are the flags of a struct that were given, by their tags.
func editsOf(fields any) (list []edit) {
	v := reflect.ValueOf(fields)
	for i := range v.NumField() {
		tag, value := v.Type().Field(i).Tag, v.Field(i)
		path, tagged := tag.Lookup("job")
		if !tagged || value.IsNil() {
			continue
		}
		if kind, implied := tag.Lookup("implies"); implied {
			list = append(list, kindIfNone(kind))
		}
		if value.Kind() == reflect.Pointer {
			value = value.Elem()
		}
		list = append(list, edit{path: path, value: value.Interface()})
	}
	return list
}

func appendEdit[T any](list []edit, path string, value *T) []edit {
	if value == nil {
		return list
	}
	return append(list, edit{path: path, value: *value})
}

// apply writes the flags into a document and leaves everything else in it as it
// is, unknown and duplicate fields included: whoever reads the document reports
// those. A document that is not an object is returned as it came, likewise.
func apply(document []byte, edits []edit) ([]byte, error) {
	if len(edits) == 0 || !gjson.ValidBytes(document) || !gjson.ParseBytes(document).IsObject() {
		return document, nil
	}
	changed := document
	for _, e := range edits {
		if e.field != "" {
			var err error
			if changed, err = jobdoc.Set(changed, e.field, e.text); err != nil {
				return nil, usage("--set %v", err)
			}
			continue
		}
		document, err := jobdoc.Open(changed, e.path)
		if err != nil {
			return nil, err
		}
		if !settable(document, e.path) || e.absent && gjson.GetBytes(document, e.path).Exists() {
			continue
		}
		path := e.path
		if list := gjson.GetBytes(document, path); e.further && list.Exists() && list.Type != gjson.Null {
			if !list.IsArray() {
				continue // whoever reads the document says so
			}
			path += ".-1"
		} else if e.further {
			e.value = []any{e.value}
		}
		if changed, err = sjson.SetBytes(document, path, e.value); err != nil {
			return nil, fmt.Errorf("set %s: %w", e.path, err)
		}
	}
	return changed, nil
}

// settable is false where a field would have to go into something that is not
// an object: the reader of the document then says so.
func settable(document []byte, path string) bool {
	for i, c := range path {
		if c != '.' {
			continue
		}
		if parent := gjson.GetBytes(document, path[:i]); parent.Exists() && parent.Type != gjson.Null &&
			!parent.IsObject() {
			return false
		}
	}
	return true
}

// localCards is the name that stands for the cards of this machine.
const localCards = "local"

// withLocal puts the cards of this machine, with what is free of their memory, in the place of their name.
func (t *terminal) withLocal(ctx context.Context, names []string) ([]any, error) {
	var list []any
	for _, name := range names {
		if name != localCards {
			list = append(list, name)
			continue
		}
		cards, err := localcards.Find(ctx)
		if err != nil {
			return nil, fmt.Errorf("--gpu local: %w; a card is named without it, such as --gpu rtx-4090", err)
		}
		for _, c := range cards {
			words := c.Name
			if c.FreeBytes != nil {
				words += fmt.Sprintf(", %s MiB of %s free", screen.Thousands(*c.FreeBytes>>20),
					screen.Thousands(c.MemoryBytes>>20))
			}
			fmt.Fprintf(t.stderr, "local: %s\n", screen.Plain(words))
			if !slices.ContainsFunc(list, func(other any) bool { return sameCard(other, c) }) {
				list = append(list, c)
			}
		}
	}
	return list, nil
}

func sameCard(a any, b localcards.Card) bool {
	other, ok := a.(localcards.Card)
	return ok && other.Name == b.Name && other.MemoryBytes == b.MemoryBytes &&
		(other.FreeBytes == nil) == (b.FreeBytes == nil) && (b.FreeBytes == nil || *other.FreeBytes == *b.FreeBytes)
}
