package readers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/tidwall/sjson"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
	"github.com/vramplan/vramplan/service/readers/tool"
	"github.com/vramplan/vramplan/service/readers/trl"
)

// Patch is a change of the user's own files.
type Patch struct {
	// Diff is a unified diff that git apply and patch -p1 take; empty where only a command line changes.
	Diff string
	// Command is the command line with its changes, where one was given.
	Command string
}

// ErrNotExpressible means that the files cannot say what is wanted: the tool has no word for it, or the value is worked
// out elsewhere.
var ErrNotExpressible = errors.New("not expressible in these files")

// InexpressibleError is an [ErrNotExpressible] with the words that would have to change, as far as the tool has them.
type InexpressibleError struct {
	Why string
	// Words name each word with its file and line, what it says and what it would have to say; none where the tool has
	// no word for a part of it.
	Words []string
}

func (e *InexpressibleError) Error() string { return ErrNotExpressible.Error() + ": " + e.Why }

// Unwrap is [ErrNotExpressible].
func (*InexpressibleError) Unwrap() error { return ErrNotExpressible }

// MakePatch changes fields of a job that was read, by their pointers in the document, into exactly the wanted document.
func MakePatch(ctx context.Context, s source.Source, job *Job, changes map[string]any) (*Patch, error) {
	plain, err := plainValues(changes)
	if err != nil {
		return nil, err
	}
	wanted, err := changed(job.Document, withFollowers(job.draft, plain))
	if err != nil {
		return nil, err
	}
	return PatchTo(ctx, s, job, changes, func(j *Job) string {
		var got any
		if json.Unmarshal(j.Document, &got) == nil && reflect.DeepEqual(got, wanted) {
			return ""
		}
		return "the changed files do not read as the wanted job"
	})
}

// PatchTo is [MakePatch] for a job that has to mean something: unlike says in what one that was read does not, and is
// empty where it does. Every change is put where the value stands, and one that stands nowhere beside the micro-batch,
// in the tool's own word; words of a command line go onto the line, never into a variable's value. The changed files
// are read again, and a patch is returned only if they mean the wanted job, every other job is what it was, and every
// other word stands as it did; otherwise the error is an [*InexpressibleError].
func PatchTo(ctx context.Context, s source.Source, job *Job, changes map[string]any,
	unlike func(*Job) string) (*Patch, error) {
	plain, err := plainValues(changes)
	if err != nil {
		return nil, err
	}
	p := patcher{source: s, files: source.New(s), job: job, byFile: map[string][]replacement{}, keys: map[string]bool{}}
	sets, err := p.sets(plain)
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		if e := p.change(set); e != nil && err == nil {
			err = e
		}
	}
	if err == nil && slices.ContainsFunc(slices.Collect(maps.Keys(p.byFile)), func(name string) bool {
		return path.Ext(name) == ".ipynb"
	}) {
		err = p.refuse("it is a notebook, whose lines stand in strings")
	}
	if err == nil {
		var out *Patch
		if out, err = p.finish(ctx, unlike); err == nil {
			return out, nil
		}
	}
	if e, ok := errors.AsType[*InexpressibleError](err); ok {
		e.Words = p.words
	}
	return nil, err
}

// plainValues are changes as the values that a document has, in objects with a field each: whole numbers are int64. An
// object with a mode or a kind alone is that word.
func plainValues(changes map[string]any) (map[string]any, error) {
	out := map[string]any{}
	for pointer, value := range changes {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		out[pointer] = numbers(v)
	}
	return out, nil
}

// numbers gives every number of a value its type.
func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, _ := x.Float64()
		return f
	case map[string]any:
		for key := range x {
			x[key] = numbers(x[key])
		}
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	}
	return v
}

// sets are the words of the tool for changes, and the fields that they are for.
func (p *patcher) sets(changes map[string]any) ([]fieldSet, error) {
	d := p.job.draft
	words := wordsOf(d)
	var list []fieldSet
	for _, at := range p.leaves(changes) {
		word, ok := words[at.pointer]
		var sets []tool.Set
		switch n, isNumber := at.value.(int64); {
		case ok:
			if sets, ok = word(at.value); !ok {
				return nil, p.refuse("%s has no word for %s %v", d.Reader, at.pointer, at.value)
			}
		case isNumber: // in the word that gives it, if one does
			sets = []tool.Set{{Key: d.Fields[at.pointer].Origin.Key, Text: fmt.Sprint(n)}}
		default:
			return nil, p.refuse("%s has no word for %s", d.Reader, at.pointer)
		}
		for _, set := range sets {
			_, number := at.value.(int64)
			one := fieldSet{set, at.pointer, number}
			if i := slices.IndexFunc(list, func(f fieldSet) bool { return f.Key == set.Key }); i >= 0 {
				list[i] = one
				continue
			}
			list = append(list, one)
		}
	}
	return list, nil
}

// fieldSet is a word with the field that it is for; number says that it is that field's number.
type fieldSet struct {
	tool.Set
	pointer string
	number  bool
}

// leaf is a field with its new value.
type leaf struct {
	pointer string
	value   any
}

// leaves are the fields that changes give another value than the document's, those of adapters and of objects with a
// mode or a kind one by one, in their order.
func (p *patcher) leaves(changes map[string]any) []leaf {
	var before any
	if json.Unmarshal(p.job.Document, &before) != nil {
		return nil
	}
	before = numbers(before)
	stands := func(pointer string) any {
		at := before
		for _, name := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
			object, _ := at.(map[string]any)
			at = object[name]
		}
		if f, ok := at.(float64); ok && f == float64(int64(f)) {
			return int64(f)
		}
		return at
	}
	var list []leaf
	for pointer, value := range changes {
		object, isObject := value.(map[string]any)
		if !isObject || pointer == "/training/optimizer" {
			list = append(list, leaf{pointer, value})
			continue
		}
		if pointer == "/training/lora" && stands(pointer) == nil {
			list = append(list, leaf{pointer, true})
		}
		for key, inner := range object {
			at := pointer + "/" + key
			if key == "mode" || key == "kind" {
				at = pointer
			}
			if !reflect.DeepEqual(stands(at), inner) && (at != pointer || !reflect.DeepEqual(stands(at+"/"+key), inner)) {
				list = append(list, leaf{at, inner})
			}
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].pointer < list[j].pointer })
	return list
}

// withFollowers adds what changes by itself: tools that evaluate with the micro-batch.
func withFollowers(d *draft.Draft, changes map[string]any) map[string]any {
	const evaluation, micro = "/training/evaluation/micro_batch", "/training/micro_batch"
	next, ok := changes[micro].(int64)
	if !ok || !followsMicroBatch(d) {
		return changes
	}
	all := map[string]any{evaluation: next}
	for pointer, value := range changes {
		all[pointer] = value
	}
	return all
}

// followsMicroBatch says whether the tool takes the micro-batch for the evaluation's: no line gives the latter, and the
// reader wrote it beside the setting that switches evaluation on.
func followsMicroBatch(d *draft.Draft) bool {
	key := d.Fields["/training/evaluation/micro_batch"].Origin.Key
	return key == "val_set_size" || key == "test_datasets"
}

// PlanDocument is the job's document for whoever may change its micro-batch, as plans do: an evaluation's batch that
// follows the micro-batch is left out, and so follows there, too.
func (j *Job) PlanDocument() ([]byte, error) { return planDocument(j.draft, j.Document) }

func planDocument(d *draft.Draft, document json.RawMessage) ([]byte, error) {
	if !followsMicroBatch(d) {
		return document, nil
	}
	out, err := sjson.DeleteBytes(document, "training.evaluation.micro_batch")
	if err != nil {
		return nil, fmt.Errorf("leave the evaluation's batch out of a job: %w", err)
	}
	return out, nil
}

type patcher struct {
	source source.Source
	files  *source.Files
	job    *Job
	byFile map[string][]replacement
	// keys are the words that change, and words what they would have to say, for people.
	keys  map[string]bool
	words []string
}

// refuse says why there is no patch.
func (p *patcher) refuse(why string, args ...any) error {
	return &InexpressibleError{Why: fmt.Sprintf(why, args...)}
}

// change finds the place of a word and puts there what has to stand there.
func (p *patcher) change(set fieldSet) error {
	d := p.job.draft
	if set.pointer == "/training/gradient_accumulation" && d.Fields[set.pointer].Origin.Kind == setting.Derived {
		next, done := p.derived(set)
		if done {
			return nil
		}
		set = next
	}
	if d.In != nil && d.In.Any(set.Not...) {
		return p.refuse("the release of %s that is named has no %s", d.Reader, set.Key)
	}
	v, ok := p.standing(set)
	switch {
	case ok && (set.Missing || says(v, set.Text)):
		return nil
	case ok:
		p.named(lastWord(v.Origin.Key), v.Origin.At, cmp.Or(v.Text, "on"), set.Text)
		p.keys[lastWord(v.Origin.Key)] = true
		return p.replace(v, set)
	case set.Standing:
		return nil
	}
	if set.Key == "" {
		return p.refuse("%s has no word for %s", d.Reader, set.pointer)
	}
	p.keys[lastWord(set.Key)] = true
	return p.insert(set)
}

// standing is the value of a word where the files give it.
func (p *patcher) standing(set fieldSet) (setting.Value, bool) {
	d := p.job.draft
	if d.In != nil {
		for _, key := range append([]string{set.Key}, set.Or...) {
			if v, ok := d.In.Peek(key); ok && gives(v.Origin) {
				return v, true
			}
		}
	}
	now := d.Fields[set.pointer]
	if gives(now.Origin) && (set.number || lastWord(now.Origin.Key) == lastWord(set.Key)) {
		return setting.Value{Text: now.Text, Any: now.Text, Origin: now.Origin}, true
	}
	return setting.Value{}, false
}

// gives reports whether a file or a command line gives a value.
func gives(o setting.Origin) bool {
	return (o.Kind == setting.File || o.Kind == setting.Argument) && o.At.Known()
}

// says reports whether a value says what is wanted already.
func says(v setting.Value, text string) bool {
	if on, ok := v.Bool(); ok && (text == "true" || text == "false") {
		return on == (text == "true")
	}
	return v.Text == text
}

// named notes a word for people.
func (p *patcher) named(key string, at setting.Span, old, text string) {
	p.words = append(p.words, fmt.Sprintf("%s: %s %s → %s", cmp.Or(at.Where(), p.where()), key, draft.Clip(old), text))
}

// where is the place of the command, or of the file of its micro-batch.
func (p *patcher) where() string {
	if c := p.job.Command; c != nil {
		return c.String()
	}
	return cmp.Or(p.job.draft.Fields["/training/micro_batch"].Origin.At.Where(), "the files")
}

// derived changes what the accumulation is derived from, where that is a count of steps over all processes; a batch of
// all GPUs together stays as it is: it gives the new accumulation by itself, or reading again says that it does not.
func (p *patcher) derived(set fieldSet) (next fieldSet, done bool) {
	origin := p.job.draft.Sources["/training/gradient_accumulation"]
	world, _ := p.job.draft.Int("/training/distributed/world_size")
	var n int64
	if _, err := fmt.Sscan(set.Text, &n); err != nil || origin.Origin.Key != "gradient_accumulation_steps" {
		return set, true
	}
	set.Key, set.Text = origin.Origin.Key, fmt.Sprint(n*max(world, 1))
	return set, false
}

func (p *patcher) put(at setting.Span, text string) {
	p.byFile[at.File] = append(p.byFile[at.File], replacement{at, text})
}

func lastWord(key string) string {
	key = strings.ReplaceAll(strings.TrimLeft(key, "-+"), "-", "_")
	return key[strings.LastIndexByte(key, '.')+1:]
}

const commandFile = "command line"

// text is a file as it is now.
func (p *patcher) text(name string) ([]byte, bool) {
	if name == commandFile {
		if p.source.Line != "" {
			return []byte(p.source.Line + "\n"), true
		}
		return []byte(joined(p.source.Command) + "\n"), true
	}
	text, err := p.files.Read(p.files.Full(name))
	return text, err == nil
}

// finish applies the changes in memory, reads again, and proves them.
func (p *patcher) finish(ctx context.Context, unlike func(*Job) string) (*Patch, error) {
	names := slices.Sorted(maps.Keys(p.byFile))
	out := &Patch{}
	texts := map[string][]byte{}
	again := p.source
	for _, name := range names {
		old, ok := p.text(name)
		if !ok {
			return nil, p.refuse("%s is not a file that was handed over", name)
		}
		text, err := replaced(old, p.byFile[name])
		if err != nil {
			return nil, err
		}
		if name == commandFile {
			out.Command = strings.TrimSuffix(string(text), "\n")
			again.Line, again.Command = out.Command, nil
			continue
		}
		texts[p.files.Full(name)] = text
		out.Diff += string(diff.Diff("a/"+name, old, "b/"+name, text))
	}
	again.ReadFile = func(name string) ([]byte, error) {
		if text, ok := texts[name]; ok {
			return text, nil
		}
		return p.source.ReadFile(name)
	}
	if err := p.proven(ctx, again, unlike); err != nil {
		return nil, err
	}
	return out, nil
}

// replacement is one change of a text: the bytes of a span by others.
type replacement struct {
	at   setting.Span
	text string
}

// replaced is a text with replacements, which do not overlap.
func replaced(text []byte, list []replacement) ([]byte, error) {
	sort.SliceStable(list, func(i, j int) bool { return list[i].at.Start < list[j].at.Start })
	var out []byte
	at := 0
	for _, r := range list {
		if r.at.Start < at || r.at.End > len(text) || r.at.Start > r.at.End {
			return nil, &InexpressibleError{Why: "two settings stand in one place"}
		}
		out = append(append(out, text[at:r.at.Start]...), r.text...)
		at = r.at.End
	}
	return append(out, text[at:]...), nil
}

// changed is a document with changes, as plain values.
func changed(document json.RawMessage, changes map[string]any) (any, error) {
	var doc any
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, fmt.Errorf("the document that was read: %w", err)
	}
	for pointer, value := range changes {
		plain, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		var v any
		if err := json.Unmarshal(plain, &v); err != nil {
			return nil, err
		}
		parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
		at, _ := doc.(map[string]any)
		for _, part := range parts[:len(parts)-1] {
			next, ok := at[part].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[part] = next
			}
			at = next
		}
		at[parts[len(parts)-1]] = v
	}
	return doc, nil
}

// wordsOf are the words of a draft's reader; TRL's own programs have the Trainer's and more, others' the Trainer's.
func wordsOf(d *draft.Draft) tool.Words {
	for _, t := range tools {
		if t.Name == d.Reader {
			return t.Words
		}
	}
	if d.OwnProgram {
		return trl.Words
	}
	return huggingface.Words
}
