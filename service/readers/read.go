package readers

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/programs"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Read finds the jobs in what was handed over. What cannot be read is in the answer; the error is that of ctx, or of a
// file that could not be opened.
func Read(ctx context.Context, s source.Source) (*Answer, error) {
	f := source.New(s)
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
		if !source.IsScriptName(name) && in.used(name) && (line != "" || len(in.answer.Jobs) > 0) {
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
		case source.IsScriptName(a) == source.IsScriptName(b):
			return 0
		case source.IsScriptName(a):
			return -1
		}
		return 1
	})
	return sorted
}

// inbox collects the jobs of all files.
type inbox struct {
	files  *source.Files
	answer *Answer
	// seen are documents that are in the answer, so that a script and the configuration that it names are one job.
	seen map[string]bool
	// unread are programs that nobody knows: where there is no job, they are the reason, and else those are named that
	// are likely to train.
	unread []stranger
}

// used reports whether a command opened a file already.
func (in *inbox) used(name string) bool {
	full := in.files.Full(name)
	_, ok := in.files.Texts[full]
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
	commands, err := launch.ScriptCommands(ctx, in.files, "command line", []byte(line+"\n"))
	if err != nil {
		in.answer.Refusals = append(in.answer.Refusals, draft.Refusal{Code: "not-readable", Say: err.Error()})
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
	full := in.files.Full(name)
	text, err := in.files.Read(full)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if in.files.Source.Scripts || isScript(name, text) {
		if d := declared(in.files, full, text); d != nil {
			in.add(d)
			return nil
		}
		commands, err := launch.ScriptCommands(ctx, in.files, full, text)
		if err != nil {
			in.answer.Refusals = append(in.answer.Refusals, draft.Refusal{File: in.files.Shown(full), Code: "not-readable",
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
	if source.IsScriptName(name) {
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
	for _, script := range in.files.Scripts(full) {
		text, err := in.files.Read(script)
		if err != nil || !strings.Contains(string(text), base) &&
			!strings.Contains(string(text), strings.TrimSuffix(base, path.Ext(base))) {
			continue
		}
		commands, err := launch.ScriptCommands(ctx, in.files, script, text)
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
		better := func(o started) bool { return len(o.Out.Questions) < len(s.Out.Questions) }
		if slices.ContainsFunc(found[:i], func(o started) bool {
			return o.words == s.words && !(len(s.Out.Questions) < len(o.Out.Questions))
		}) ||
			slices.ContainsFunc(found[i+1:], func(o started) bool { return o.words == s.words && better(o) }) {
			continue
		}
		in.add(s.Out)
	}
	return len(found) > 0, nil
}

// started is a job that a command starts, with the words of the command.
type started struct {
	*tool.Job
	words string
}

// opened reports whether the job's settings are in a file.
func (s started) opened(full string) bool {
	return s.File == full || s.Code != nil && s.Files.Full(s.Code.File) == full
}

// jobs reads the commands that train.
func (in *inbox) jobs(commands []launch.Command) []started {
	var found []started
	for _, c := range commands {
		r := in.started(c)
		if r == nil {
			continue
		}
		var words []string
		for _, w := range c.Words {
			words = append(words, w.Text)
		}
		found = append(found, started{r, strings.Join(words, " ")})
	}
	return found
}

// job reads a command with the first tool that recognises it; nil where none does.
func (in *inbox) job(l *launch.Launch) *tool.Job {
	for _, t := range tools {
		j := tool.Of(l, t.Name)
		r := t.New(j)
		if !r.Starts() {
			continue
		}
		j.Prepare()
		r.Read()
		all.Finish(j)
		j.Out.In = j.In
		return j
	}
	return nil
}

// configuration reads a file of a tool without a command that starts it.
func (in *inbox) configuration(ctx context.Context, full string, text []byte) error {
	shown := in.files.Shown(full)
	if found, err := in.kubernetes(ctx, full, text); found || err != nil {
		return err
	}
	if ext := path.Ext(full); ext == ".yaml" || ext == ".yml" {
		if found, err := in.skypilot(ctx, full, text); found || err != nil {
			return err
		}
	}
	notebook := path.Ext(full) == ".ipynb"
	if notebook {
		program, commands, err := decode.Notebook(text)
		if err != nil {
			in.answer.Refusals = append(in.answer.Refusals, draft.Refusal{File: shown, Code: "not-readable", Say: err.Error()})
			return nil
		}
		if found, err := in.notebookCommands(ctx, full, commands); found || err != nil {
			return err
		}
		text = program
	}
	if path.Ext(full) == ".py" || notebook {
		for _, t := range tools {
			if t.Program == nil {
				continue
			}
			j, r := t.Program(in.files, full, text)
			if j == nil {
				continue
			}
			if r != nil {
				j.Prepare()
				r.Read()
				all.Finish(j)
				j.Out.In = j.In
			}
			in.add(j.Out)
			return nil
		}
	}
	var d *draft.Draft
	if !notebook {
		d = in.draftOf(&tool.Job{Launch: launch.Alone(in.files), File: full}, text)
	}
	if d == nil {
		in.answer.Refusals = append(in.answer.Refusals, draft.Refusal{File: shown, Code: "unknown-file",
			Say: "no trainer's configuration that a reader knows: nothing describes a job here; " +
				"say it in flags (vramplan estimate --model NAME --micro-batch N --sequence-length N) or in a job document"})
		return nil
	}
	in.add(d)
	return nil
}

// notebookCommands reads the trainings that a notebook starts by a shell.
func (in *inbox) notebookCommands(ctx context.Context, full string, commands []byte) (found bool, err error) {
	if len(commands) == 0 {
		return false, nil
	}
	list, err := launch.ScriptCommands(ctx, in.files, full, commands)
	if err != nil {
		return false, ctx.Err() // lines of IPython's that no shell takes: the program is read
	}
	jobs := in.jobs(list)
	for _, s := range jobs {
		in.add(s.Out)
	}
	return len(jobs) > 0, nil
}

// draftOf reads a tool's configuration by what is in it; nil where no tool knows it.
func (in *inbox) draftOf(r *tool.Job, text []byte) *draft.Draft {
	shown := in.files.Shown(r.File)
	var s *setting.Settings
	var err error
	if path.Ext(r.File) == ".py" {
		r.Code, err = programs.Read(in.files, r.File, text, "")
		if err == nil {
			s = r.Code.Values.Clone()
		}
	} else {
		s, err = in.files.Settings(r.File, text)
	}
	if err != nil {
		r.Out = draft.New("")
		if !r.Broken(err) {
			r.Out.Refuse("not-readable", setting.Span{File: shown}, "%v", err)
		}
		return r.Out
	}
	r.In = s
	t := detect(s)
	if t == nil {
		return nil
	}
	if r.Beneath != nil {
		for _, key := range r.Beneath.Keys() {
			if v, ok := r.Beneath.Peek(key); ok && !s.Has(key) {
				s.Set(key, v)
			}
		}
	}
	r.Out = draft.New(t.Name)
	t.New(r).Read()
	all.Finish(r)
	r.Out.In = r.In
	return r.Out
}

// addAll puts the jobs of commands into the answer.
func (in *inbox) addAll(commands []launch.Command) {
	for _, s := range in.jobs(commands) {
		in.add(s.Out)
	}
}

// add puts a finished draft into the answer.
func (in *inbox) add(d *draft.Draft) {
	if len(in.answer.Jobs)+len(in.answer.Refusals) >= source.MaxJobs {
		return
	}
	document := d.Document()
	if len(d.Refusals) > 0 {
		for _, r := range d.Refusals {
			if len(d.Fields) > 0 {
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
func keyOf(d *draft.Draft, document json.RawMessage) string {
	if d.Command == nil {
		return string(document)
	}
	at := map[string]string{}
	for p, f := range d.Fields {
		at[p] = f.Origin.At.Where()
	}
	place, _ := json.Marshal(at)
	if d.Fields["/training/micro_batch"].Origin.At.File != d.Command.File {
		return string(document) + string(place)
	}
	return string(document) + d.Command.String()
}

func jobOf(d *draft.Draft, document json.RawMessage) Job {
	j := Job{Document: document, Reader: d.Reader, Command: d.Command, Origins: map[string]Origin{},
		Questions: d.Questions, Assumptions: d.Assumptions, draft: d}
	for p, f := range d.Fields {
		o := f.Origin
		j.Origins[p] = Origin{Kind: o.Kind, File: o.At.File, Line: o.At.Line, Key: o.Key, Text: draft.Clip(f.Text),
			Ref: o.Ref, How: o.How}
	}
	place := func(v setting.Value) Place { return Place{File: v.Origin.At.File, Line: v.Origin.At.Line} }
	for _, v := range d.Overridden {
		j.Overridden = append(j.Overridden, Overridden{Key: v.Origin.Key, Text: draft.Clip(v.Text), Place: place(v)})
	}
	for _, v := range d.Ignored {
		j.Ignored = append(j.Ignored, Ignored{Key: v.Origin.Key, Place: place(v)})
	}
	j.Doubts = d.AllDoubts()
	return j
}

// close says why there is nothing, where there is nothing, and what was started besides.
func (in *inbox) close() {
	found := len(in.answer.Jobs)+len(in.answer.Refusals) > 0
	for _, s := range in.unread {
		if key := fmt.Sprintf("%s:%d", s.File, s.Line); (s.likely || !found) && !in.seen[key] &&
			len(in.answer.Jobs)+len(in.answer.Refusals) < source.MaxJobs {
			in.seen[key] = true
			in.answer.Refusals = append(in.answer.Refusals, s.Refusal)
		}
	}
	if len(in.answer.Jobs)+len(in.answer.Refusals) == 0 {
		in.answer.Refusals = []draft.Refusal{{Code: "no-job", Say: "no training job found: nothing that a reader " +
			"knows is started here"}}
	}
}
