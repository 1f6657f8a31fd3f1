package readers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"sort"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/tidwall/sjson"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
	"github.com/vramplan/vramplan/service/readers/tool"
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

// replacement is one change of a text: the bytes of a span by others.
type replacement struct {
	at   setting.Span
	text string
}

// MakePatch changes fields of a job that was read: pointer in the document, new value. Every change is put where the
// value stands, and one that stands nowhere beside the micro-batch, in the tool's own word. The changed files are read
// again, and only a patch that gives exactly the wanted document is returned; otherwise the error is
// [ErrNotExpressible].
func MakePatch(ctx context.Context, s source.Source, job *Job, changes map[string]any) (*Patch, error) {
	f := source.New(s)
	p := patcher{source: s, files: f, job: job, byFile: map[string][]replacement{}}
	wanted, err := changed(job.Document, withFollowers(job.draft, changes))
	if err != nil {
		return nil, err
	}
	pointers := make([]string, 0, len(changes))
	for pointer := range changes {
		pointers = append(pointers, pointer)
	}
	sort.Strings(pointers)
	for _, pointer := range pointers {
		if err := p.change(pointer, changes[pointer]); err != nil {
			return nil, err
		}
	}
	for name := range p.byFile {
		if path.Ext(name) == ".ipynb" { // whose lines stand in strings
			return nil, fmt.Errorf("%w: %s is a notebook", ErrNotExpressible, name)
		}
	}
	return p.finish(ctx, wanted)
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
func (j *Job) PlanDocument() ([]byte, error) {
	if !followsMicroBatch(j.draft) {
		return j.Document, nil
	}
	out, err := sjson.DeleteBytes(j.Document, "training.evaluation.micro_batch")
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
}

// change finds the place of a field and what has to stand there.
func (p *patcher) change(pointer string, value any) error {
	d := p.job.draft
	now := d.Fields[pointer]
	word, ok := wordsOf(d.Reader)[pointer]
	key, text := "", fmt.Sprint(value)
	if ok {
		if key, text, ok = word(value); !ok {
			return fmt.Errorf("%w: %s has no word for %s %v", ErrNotExpressible, d.Reader, pointer, value)
		}
	} else if _, isNumber := value.(int64); !isNumber {
		return fmt.Errorf("%w: %s has no word for %s", ErrNotExpressible, d.Reader, pointer)
	}
	at := now.Origin.At
	own := now.Origin.Kind == setting.File || now.Origin.Kind == setting.Argument
	switch {
	case own && at.End > at.Start && (key == "" || lastWord(now.Origin.Key) == lastWord(key)):
		p.put(at, like(now.Text, text))
	case pointer == "/training/gradient_accumulation" && now.Origin.Kind == setting.Derived:
		return p.derived(value)
	case own && at.Known() && (key == "" || lastWord(now.Origin.Key) == lastWord(key)):
		return fmt.Errorf("%w: %s stands at %s in a form that is not changed", ErrNotExpressible, now.Origin.Key,
			at.Where())
	default:
		return p.insert(cmp.Or(key, now.Origin.Key), text)
	}
	return nil
}

// derived changes what the accumulation is derived from, where that is a count of steps over all processes; a batch of
// all GPUs together stays as it is.
func (p *patcher) derived(value any) error {
	origin := p.job.draft.Sources["/training/gradient_accumulation"]
	n, isInt := value.(int64)
	world, _ := p.job.draft.Int("/training/distributed/world_size")
	if origin.Origin.Key != "gradient_accumulation_steps" || !isInt {
		return nil // a global batch: it gives the new accumulation by itself, or reading again says that it does not
	}
	text := fmt.Sprint(n * max(world, 1))
	if at := origin.Origin.At; at.End > at.Start {
		p.put(at, text)
		return nil
	}
	return p.insert("gradient_accumulation_steps", text)
}

// insert writes a new setting beside the micro-batch.
func (p *patcher) insert(key, text string) error {
	sibling := p.job.draft.Fields["/training/micro_batch"]
	at := sibling.Origin.At
	body, ok := p.text(at.File)
	if !ok || at.End <= at.Start || key == "" {
		return fmt.Errorf("%w: there is no place for %s", ErrNotExpressible, key)
	}
	short := lastWord(key)
	end := setting.Span{File: at.File, Start: at.End, End: at.End}
	if sibling.Origin.Kind == setting.Argument {
		if q := body[at.End:]; len(q) > 0 && (q[0] == '"' || q[0] == '\'') {
			end.Start, end.End = at.End+1, at.End+1
		}
		option := key
		if dashes := len(sibling.Origin.Key) - len(strings.TrimLeft(sibling.Origin.Key, "-")); dashes > 0 {
			p.put(end, " "+strings.Repeat("-", dashes)+option+" "+text)
		} else {
			p.put(end, " "+option+"="+text)
		}
		return nil
	}
	lineStart := bytes.LastIndexByte(body[:at.Start], '\n') + 1
	lineEnd := len(body)
	if i := bytes.IndexByte(body[at.End:], '\n'); i >= 0 {
		lineEnd = at.End + i
	}
	indent := string(body[lineStart : lineStart+len(body[lineStart:])-len(bytes.TrimLeft(body[lineStart:], " \t"))])
	below := setting.Span{File: at.File, Start: lineEnd, End: lineEnd}
	switch path.Ext(at.File) {
	case ".yaml", ".yml":
		p.put(below, "\n"+indent+short+": "+text)
	case ".toml":
		p.put(below, "\n"+indent+short+" = "+text)
	case ".json", ".conf":
		p.put(end, ", \""+short+"\": "+text)
	case ".py":
		if rest := strings.TrimLeft(string(body[at.End:lineEnd]), " \t"); strings.HasPrefix(rest, ",") ||
			strings.HasPrefix(rest, ")") {
			p.put(end, ", "+short+"="+pythonWord(text))
		} else {
			p.put(below, "\n"+indent+short+" = "+pythonWord(text))
		}
	default:
		return fmt.Errorf("%w: there is no place for %s in %s", ErrNotExpressible, key, at.File)
	}
	return nil
}

// pythonWord is a value as Python writes it.
func pythonWord(text string) string {
	switch text {
	case "true":
		return "True"
	case "false":
		return "False"
	}
	return text
}

func (p *patcher) put(at setting.Span, text string) {
	p.byFile[at.File] = append(p.byFile[at.File], replacement{at, text})
}

// like writes a truth value as the old one was written: True, true, yes.
func like(old, text string) string {
	if (text == "true" || text == "false") && old != "" && old[0] >= 'A' && old[0] <= 'Z' {
		return pythonWord(text)
	}
	return text
}

func lastWord(key string) string {
	key = strings.ReplaceAll(strings.TrimLeft(key, "-"), "-", "_")
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

// finish applies the changes in memory, reads again, and compares.
func (p *patcher) finish(ctx context.Context, wanted any) (*Patch, error) {
	names := make([]string, 0, len(p.byFile))
	for name := range p.byFile {
		names = append(names, name)
	}
	sort.Strings(names)
	out := &Patch{}
	texts := map[string][]byte{}
	again := p.source
	for _, name := range names {
		old, ok := p.text(name)
		if !ok {
			return nil, fmt.Errorf("%w: %s is not a file that was handed over", ErrNotExpressible, name)
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
	answer, err := Read(ctx, again)
	if err != nil {
		return nil, err
	}
	for _, j := range answer.Jobs {
		var got any
		if json.Unmarshal(j.Document, &got) == nil && reflect.DeepEqual(got, wanted) && sameCommand(&j, p.job) {
			return out, nil
		}
	}
	return nil, fmt.Errorf("%w: the changed files do not read as the wanted job", ErrNotExpressible)
}

// sameCommand tells the jobs of a script apart; insertions within a line leave its number.
func sameCommand(a, b *Job) bool {
	return a.Command == nil && b.Command == nil || a.Command != nil && b.Command != nil &&
		a.Command.File == b.Command.File
}

// replaced is a text with replacements, which do not overlap.
func replaced(text []byte, list []replacement) ([]byte, error) {
	sort.SliceStable(list, func(i, j int) bool { return list[i].at.Start < list[j].at.Start })
	var out []byte
	at := 0
	for _, r := range list {
		if r.at.Start < at || r.at.End > len(text) || r.at.Start > r.at.End {
			return nil, fmt.Errorf("%w: two settings stand in one place", ErrNotExpressible)
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

// wordsOf are the words of a reader; TRL's and programs' own are the Trainer's.
func wordsOf(reader string) tool.Words {
	for _, t := range tools {
		if t.Name == reader {
			return t.Words
		}
	}
	return huggingface.Words
}
