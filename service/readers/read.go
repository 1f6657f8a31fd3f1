package readers

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Read finds the jobs in what was handed over. What cannot be read is in the answer; the error is that of ctx, or of a
// file that could not be opened.
func Read(ctx context.Context, s Source) (*Answer, error) {
	f := newFiles(s)
	in := &inbox{files: f, answer: &Answer{Jobs: []Job{}}, seen: map[string]bool{}}
	line := s.Line
	if len(s.Command) > 0 {
		line = joined(s.Command)
	}
	if line != "" {
		if err := in.commandLine(ctx, line); err != nil {
			return nil, err
		}
	}
	for _, name := range scriptsFirst(s.Files) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !isScriptName(name) && in.used(name) && (line != "" || len(in.answer.Jobs) > 0) {
			continue // a file of the chain of a job that is in the answer
		}
		if err := in.file(ctx, name); err != nil {
			return nil, err
		}
	}
	in.close()
	return in.answer, nil
}

// scriptsFirst puts batch scripts before the configurations that they may start.
func scriptsFirst(names []string) []string {
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int {
		switch {
		case isScriptName(a) == isScriptName(b):
			return 0
		case isScriptName(a):
			return -1
		}
		return 1
	})
	return sorted
}

// inbox collects the jobs of all files.
type inbox struct {
	files  *files
	answer *Answer
	// seen are documents that are in the answer, so that a script and the configuration that it names are one job.
	seen map[string]bool
	// unread are programs that nobody knows: where there is no job, they are the reason, and else those are named that
	// are likely to train.
	unread []stranger
}

// used reports whether a command opened a file already.
func (in *inbox) used(name string) bool {
	full := in.files.full(name)
	_, ok := in.files.texts[full]
	return ok
}

// joined is a command line of words.
func joined(words []string) string {
	line := make([]string, 0, len(words))
	for _, w := range words {
		line = append(line, quoted(w))
	}
	return strings.Join(line, " ")
}

// commandLine reads a command line as a script of one line.
func (in *inbox) commandLine(ctx context.Context, line string) error {
	commands, err := scriptCommands(ctx, in.files, "command line", []byte(line+"\n"))
	if err != nil {
		in.answer.Refusals = append(in.answer.Refusals, Refusal{Code: "not-readable", Say: err.Error()})
		return ctx.Err()
	}
	in.addAll(commands)
	return nil
}

// quoted is a word as a shell reads it again; what needs no quotes stays as it is, so that variables in front do too.
func quoted(w string) string {
	if w != "" && strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:+@%") == "" {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

// file reads one file that was handed over.
func (in *inbox) file(ctx context.Context, name string) error {
	full := in.files.full(name)
	text, err := in.files.read(full)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if in.files.source.Scripts || isScript(name, text) {
		if d := declared(in.files, full, text); d != nil {
			in.add(d)
			return nil
		}
		commands, err := scriptCommands(ctx, in.files, full, text)
		if err != nil {
			in.answer.Refusals = append(in.answer.Refusals, Refusal{File: in.files.shown(full), Code: "not-readable",
				Say: err.Error(), Err: err})
			return ctx.Err()
		}
		in.addAll(commands)
		return nil
	}
	if started, err := in.startedBy(ctx, full); started || err != nil {
		return err
	}
	return in.configuration(ctx, full, text)
}

func isScript(name string, text []byte) bool {
	if isScriptName(name) {
		return true
	}
	for _, directive := range []string{marker + " ", "#SBATCH "} {
		if strings.HasPrefix(string(text), directive) || strings.Contains(string(text), "\n"+directive) {
			return path.Ext(name) != ".md"
		}
	}
	first, _, _ := strings.Cut(string(text[:min(len(text), 200)]), "\n")
	return strings.HasPrefix(first, "#!") && strings.Contains(first, "sh") && !strings.Contains(first, "python")
}

// startedBy reads the configuration through the scripts beside it that start it, if there are any. Of scripts that
// start it with the same words the one whose files are all there counts.
func (in *inbox) startedBy(ctx context.Context, full string) (bool, error) {
	base := path.Base(full)
	var found []started
	for _, script := range in.files.scripts(full) {
		text, err := in.files.read(script)
		if err != nil || !strings.Contains(string(text), base) &&
			!strings.Contains(string(text), strings.TrimSuffix(base, path.Ext(base))) {
			continue
		}
		commands, err := scriptCommands(ctx, in.files, script, text)
		if err != nil {
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			continue
		}
		for _, s := range in.jobs(commands) {
			if s.opened(full) {
				found = append(found, s)
			}
		}
	}
	for i, s := range found {
		better := func(o started) bool { return len(o.d.questions) < len(s.d.questions) }
		if slices.ContainsFunc(found[:i], func(o started) bool {
			return o.words == s.words && !(len(s.d.questions) < len(o.d.questions))
		}) ||
			slices.ContainsFunc(found[i+1:], func(o started) bool { return o.words == s.words && better(o) }) {
			continue
		}
		in.add(s.d)
	}
	return len(found) > 0, nil
}

// started is a job that a command starts, with the words of the command.
type started struct {
	*reading
	words string
}

// opened reports whether the job's settings are in a file.
func (s started) opened(full string) bool {
	return s.file == full || s.code != nil && s.files.full(s.code.File) == full
}

// jobs reads the commands that train.
func (in *inbox) jobs(commands []command) []started {
	var found []started
	for _, c := range commands {
		r := in.started(c)
		if r == nil {
			continue
		}
		var words []string
		for _, w := range c.words {
			words = append(words, w.Text)
		}
		found = append(found, started{r, strings.Join(words, " ")})
	}
	return found
}

// job reads a command with the first tool that recognises it; nil where none does.
func (in *inbox) job(l *launch) *reading {
	for _, t := range tools {
		copied := *l
		copied.problems = slices.Clone(l.problems)
		r := &reading{launch: &copied, d: newDraft(t.name)}
		if l.at.Known() {
			r.d.command = &Place{File: l.at.File, Line: l.at.Line}
		}
		if t.starts == nil || !t.starts(r) {
			continue
		}
		r.prepare()
		t.read(r)
		r.finish()
		return r
	}
	return nil
}

// prepare runs what came up while the command was taken apart.
func (r *reading) prepare() {
	for _, p := range r.problems {
		p(r.d)
	}
}

// configuration reads a file of a tool without a command that starts it.
func (in *inbox) configuration(ctx context.Context, full string, text []byte) error {
	shown := in.files.shown(full)
	if found, err := in.kubernetes(ctx, full, text); found || err != nil {
		return err
	}
	if path.Ext(full) == ".py" {
		if own, refused := titanFile(in.files, full, text); own != nil {
			if !refused {
				own.prepare()
				own.readTorchtitan()
				own.finish()
			}
			in.add(own.d)
			return nil
		}
		if own := scriptFile(in.files, full, text); own != nil {
			own.readScript()
			own.finish()
			in.add(own.d)
			return nil
		}
	}
	d := in.draftOf(&reading{launch: alone(in.files), file: full}, text)
	if d == nil {
		in.answer.Refusals = append(in.answer.Refusals, Refusal{File: shown, Code: "unknown-file",
			Say: "no trainer's configuration that a reader knows: nothing describes a job here; " +
				"say it in flags (vramplan estimate --model NAME --micro-batch N --sequence-length N) or in a job document"})
		return nil
	}
	in.add(d)
	return nil
}

// draftOf reads a tool's configuration by what is in it; nil where no tool knows it.
func (in *inbox) draftOf(r *reading, text []byte) *draft {
	shown := in.files.shown(r.file)
	var s *setting.Settings
	var err error
	if path.Ext(r.file) == ".py" {
		r.code, err = decode.Python(shown, text, "")
		if err == nil {
			s = r.code.Values
		}
	} else {
		s, err = decodeFile(r.file, shown, text)
	}
	if err != nil {
		r.d = newDraft("")
		if !r.broken(err) {
			r.d.refuse("not-readable", setting.Span{File: shown}, "%v", err)
		}
		return r.d
	}
	r.s = s
	t := detect(r)
	if t == nil {
		return nil
	}
	if r.beneath != nil {
		for _, key := range r.beneath.Keys() {
			if v, ok := r.beneath.Peek(key); ok && !s.Has(key) {
				s.Set(key, v)
			}
		}
	}
	r.d = newDraft(t.name)
	t.read(r)
	r.finish()
	return r.d
}

// addAll puts the jobs of commands into the answer.
func (in *inbox) addAll(commands []command) {
	for _, s := range in.jobs(commands) {
		in.add(s.d)
	}
}

// add puts a finished draft into the answer.
func (in *inbox) add(d *draft) {
	if len(in.answer.Jobs)+len(in.answer.Refusals) >= maxJobs {
		return
	}
	document := d.document()
	if len(d.refusals) > 0 {
		for _, r := range d.refusals {
			if len(d.fields) > 0 {
				r.Read = document
			}
			key := r.Code + r.Say
			if !in.seen[key] {
				in.seen[key] = true
				in.answer.Refusals = append(in.answer.Refusals, r)
			}
		}
		return
	}
	key := keyOf(d, document)
	if in.seen[key] {
		return
	}
	in.seen[key] = true
	in.answer.Jobs = append(in.answer.Jobs, jobOf(d, document))
}

// keyOf tells jobs apart: two that are started in different lines of one file are two, even if they are equal.
func keyOf(d *draft, document json.RawMessage) string {
	if d.command == nil {
		return string(document)
	}
	at := map[string]string{}
	for p, f := range d.fields {
		at[p] = f.origin.At.Where()
	}
	place, _ := json.Marshal(at)
	if d.fields["/training/micro_batch"].origin.At.File != d.command.File {
		return string(document) + string(place)
	}
	return string(document) + d.command.String()
}

func jobOf(d *draft, document json.RawMessage) Job {
	j := Job{Document: document, Reader: d.reader, Command: d.command, Origins: map[string]Origin{},
		Questions: d.questions, Assumptions: d.assumptions, draft: d}
	for p, f := range d.fields {
		o := f.origin
		j.Origins[p] = Origin{Kind: o.Kind, File: o.At.File, Line: o.At.Line, Key: o.Key, Text: clip(f.text),
			Ref: o.Ref, How: o.How}
	}
	for _, v := range d.overridden {
		j.Overridden = append(j.Overridden, Overridden{Key: v.Origin.Key, Text: clip(v.Text),
			Place: Place{v.Origin.At.File, v.Origin.At.Line}})
	}
	for _, v := range d.ignored {
		j.Ignored = append(j.Ignored, Ignored{Key: v.Origin.Key, Place: Place{v.Origin.At.File, v.Origin.At.Line}})
	}
	j.Doubts = d.allDoubts()
	return j
}

// clip shortens what a user wrote before it is shown. Values outside the table of fields are never shown at all.
func clip(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return s
}

// close says why there is nothing, where there is nothing, and what was started besides.
func (in *inbox) close() {
	found := len(in.answer.Jobs)+len(in.answer.Refusals) > 0
	for _, s := range in.unread {
		if key := fmt.Sprintf("%s:%d", s.File, s.Line); (s.likely || !found) && !in.seen[key] &&
			len(in.answer.Jobs)+len(in.answer.Refusals) < maxJobs {
			in.seen[key] = true
			in.answer.Refusals = append(in.answer.Refusals, s.Refusal)
		}
	}
	if len(in.answer.Jobs)+len(in.answer.Refusals) == 0 {
		in.answer.Refusals = []Refusal{{Code: "no-job", Say: "no training job found: nothing that a reader " +
			"knows is started here"}}
	}
}
