package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/readers"
	"github.com/vramplan/vramplan/service/submission"
)

// readFlags say how files of other tools are read.
type readFlags struct {
	At     string   `placeholder:"DIR" help:"Where the files and those that they name lie, and where the job is started; the current directory if not given." group:"Files of other tools:"`
	Set    []string `sep:"none" placeholder:"FIELD=VALUE" help:"Answer a question, or say any field of the job document: --set sequence_length=2048, --set objective.num_iterations=2; repeat for more." group:"Files of other tools:"`
	Ignore []string `sep:"none" placeholder:"WORD" help:"A word of the files that changes nothing in memory; repeat for more." group:"Files of other tools:"`
}

type readCommand struct {
	readFlags `embed:""`
	hubFlag   `embed:"" group:"Answers:"`
	GPUs      int64    `name:"gpus" placeholder:"N" help:"On how many GPUs the job runs." group:"Files of other tools:"`
	HFConfig  string   `name:"hf-config" placeholder:"FILE" help:"The config.json of the model." group:"Files of other tools:"`
	Output    string   `short:"o" enum:"table,json" default:"table" setting:"VRAMPLAN_OUTPUT" help:"table or json." group:"Answers:"`
	Explain   string   `name:"explain-defaults" placeholder:"TOOL" help:"List the defaults of a tool by release, with the file of the package in which each stands; all for all tools." group:"Files of other tools:"`
	JSON      bool     `name:"json" help:"Short for --output json." group:"Answers:"`
	Wide      bool     `help:"Let lines be as long as they come; without it they fit 80 columns." group:"Answers:"`
	Files     []string `arg:"" optional:"" name:"file" help:"Batch scripts and configurations; behind -- a command line."`
}

// Run prints the jobs that files of other tools describe. The exit code is 1 where there is none.
func (c *readCommand) Run(ctx context.Context, t *terminal, k *kong.Context) error {
	if c.Explain != "" {
		return c.explain(t)
	}
	files, command := splitCommand(c.Files, k.Args)
	if len(files)+len(command) == 0 {
		return usage("nothing to read: give a batch script, a configuration, or a command line behind --")
	}
	source, err := c.source(ctx, t, files, command)
	if err != nil {
		return err
	}
	source.GPUs = c.GPUs
	if c.HFConfig != "" {
		config, err := jsonFile(t, "--hf-config", c.HFConfig)
		if err != nil {
			return err
		}
		source.Set = append(source.Set, readers.Said{Path: "model.hf_config", Value: string(config)})
	}
	answer, err := readers.Read(ctx, source)
	if err != nil {
		return err
	}
	if c.JSON || c.Output == "json" {
		encoder := json.NewEncoder(t.stdout)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	} else {
		showRead(t, answer, c.Wide)
	}
	if len(answer.Jobs) == 0 {
		return exit(exitFailure)
	}
	return nil
}

// explain lists the defaults of a tool.
func (c *readCommand) explain(t *terminal) error {
	tool := c.Explain
	if tool == "all" {
		tool = ""
	}
	list := readers.DefaultsOf(tool)
	if len(list) == 0 {
		return usage("no table of defaults of %q: transformers, trl, axolotl, llamafactory, ms-swift, litgpt, or all",
			c.Explain)
	}
	if c.JSON || c.Output == "json" {
		return json.NewEncoder(t.stdout).Encode(list)
	}
	g := screen.NewGrid("left", "left", "left", "left", "left")
	last := ""
	for _, d := range list {
		from := "every release looked at"
		if d.From != "" {
			from = "since " + d.From
		}
		value := d.Value
		if value == "-" {
			value = "not there"
		}
		if d.Means != "" {
			value += " (" + d.Means + ")"
		}
		if c.Wide {
			g.Add(d.Tool, d.Key, value, from, d.File+" "+d.Class)
			continue
		}
		if name := d.Tool + " " + d.Key; name != last {
			fmt.Fprintln(t.stdout, name)
			last = name
		}
		screen.WriteHanging(t.stdout, "  ", "      ", value+", "+from+", "+d.File+" "+d.Class)
	}
	g.Write(t.stdout)
	return nil
}

// splitCommand parts positional arguments into files and the command line behind "--", which kong does not tell apart.
func splitCommand(positional, args []string) (files, command []string) {
	i := slices.Index(args, "--")
	if i < 0 {
		return positional, nil
	}
	n := len(positional) - (len(args) - i - 1)
	return positional[:max(n, 0)], args[i+1:]
}

// source is what the readers look at: files below the current directory or --at.
func (f *readFlags) source(ctx context.Context, t *terminal, names, command []string) (readers.Source, error) {
	dir, err := filepath.Abs(f.At)
	if err != nil {
		return readers.Source{}, err
	}
	s := readers.Source{Dir: dir, Command: command, ReadFile: readBounded, List: listFiles, Ignore: f.Ignore}
	for _, name := range names {
		if name == "-" {
			if err := readStandardInput(t, &s); err != nil {
				return s, err
			}
			continue
		}
		full, err := filepath.Abs(name)
		if err != nil {
			return s, err
		}
		if _, err := os.Stat(full); err != nil && f.At != "" {
			full = filepath.Join(dir, name)
		}
		s.Files = append(s.Files, full)
	}
	catalog := service.EmbeddedCatalog()
	s.HasModel = func(name string) bool {
		_, err := catalog.Model(name)
		return err == nil
	}
	s.ModelType, s.Configuration = catalog.ModelType, t.configuration(ctx)
	s.Pictures = func(name string) readers.Pictures { return readers.PicturesOf(catalog.ShowsPictures(name)) }
	s.HasGPU = catalog.Has
	s.Cards = (&submission.Site{}).CardsOf(catalog)
	for _, said := range f.Set {
		path, value, ok := strings.Cut(said, "=")
		if !ok || path == "" {
			return s, usage("--set %q: give FIELD=VALUE, such as sequence_length=2048", said)
		}
		s.Set = append(s.Set, readers.Said{Path: path, Value: value})
	}
	return s, nil
}

// readStandardInput puts what is on standard input among the files of a source, under the name of "-".
func readStandardInput(t *terminal, s *readers.Source) error {
	text, err := t.open("-")
	if err != nil {
		return err
	}
	content, err := io.ReadAll(io.LimitReader(text, submission.MaxFileBytes))
	if err != nil {
		return err
	}
	own, read := filepath.Join(s.Dir, "-"), s.ReadFile
	s.Files = append(s.Files, own)
	s.ReadFile = func(name string) ([]byte, error) {
		if name == own {
			return content, nil
		}
		return read(name)
	}
	return nil
}

// listFiles names the regular files of a directory.
func listFiles(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names
}

// showRead prints each job as a document, which other commands take, and under it where its fields stand. The document
// is one line but in a terminal, where it is broken between its fields.
func showRead(t *terminal, a *readers.Answer, wide bool) {
	w := t.stdout
	say := func(label, text string) { screen.WriteWrapped(w, label, screen.Plain(text), wide) }
	for i, j := range a.Jobs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		head := j.Reader
		if j.Command != nil {
			head = j.Command.String() + "  " + head
		}
		fmt.Fprintln(w, screen.Plain(head))
		if wide || !isTerminal(t.stdout) {
			fmt.Fprintf(w, "%s\n", j.Document)
		} else {
			for _, line := range brokenJSON(j.Document, screen.LineWidth) {
				fmt.Fprintln(w, line)
			}
		}
		showOrigins(w, j, wide)
		for _, o := range j.Overridden {
			say("no effect: ", fmt.Sprintf("%s %s in %s; another place wins", o.Key, o.Text, o.Place))
		}
		for _, s := range j.Assumptions {
			say("assumed: ", s.Say)
		}
		for _, q := range j.Questions {
			ask := q.Ask
			if q.Why != "" {
				ask += " (" + q.Why + ")"
			}
			say("question: ", ask+" Answer with "+q.Flag)
		}
		if len(j.Ignored) > 0 {
			say("ignored: ", ignoredWords(j.Ignored))
		}
	}
	for _, r := range a.Refusals {
		say("refused: ", r.String())
	}
}

// ignoredWords names the words that change no memory, as far as the reader knows, file by file with their lines.
func ignoredWords(list []readers.Ignored) string {
	var files []string
	words := map[string][]string{}
	for _, w := range list {
		if _, ok := words[w.File]; !ok {
			files = append(files, w.File)
		}
		word := w.Key
		if w.Line > 0 {
			word += fmt.Sprintf(" (line %d)", w.Line)
		}
		words[w.File] = append(words[w.File], word)
	}
	parts := make([]string, 0, len(files))
	for _, file := range files {
		part := strings.Join(words[file], ", ")
		if file != "" {
			part = file + ": " + part
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ") + "; no reader knows them, and they are taken to change no memory"
}

// showOrigins prints where the fields of a job stand.
func showOrigins(w io.Writer, j readers.Job, wide bool) {
	g := screen.NewGrid("left", "left", "left")
	var fields [][2]string
	for _, p := range j.Pointers() {
		name, text, place := strings.TrimPrefix(p, "/"), screen.Plain(originText(j.Origins[p])),
			screen.Plain(originPlace(j.Origins[p]))
		g.Add("  "+name, text, place)
		fields = append(fields, [2]string{name, strings.TrimSpace(text + " " + place)})
	}
	if wide {
		g.Write(w)
		return
	}
	screen.WriteFields(w, fields)
}

// brokenJSON breaks a document behind its commas, where it means the same, so that no line is wider than limit unless
// one value is.
func brokenJSON(document []byte, limit int) (lines []string) {
	from, last, quoted, escaped := 0, 0, false, false
	for i, c := range document {
		if i+1-from > limit && last > from {
			lines = append(lines, string(document[from:last]))
			from = last
		}
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			last = i + 1
		}
	}
	return append(lines, string(document[from:]))
}

// originText is what stands at a field's place.
func originText(o readers.Origin) string {
	switch {
	case o.Text != "" && o.Key != "":
		return o.Key + " " + o.Text
	case o.Key != "":
		return o.Key
	}
	return o.Text
}

// originPlace says where that is.
func originPlace(o readers.Origin) string {
	switch o.Kind {
	case "default":
		return "default (" + o.Ref + ")"
	case "derived":
		return "derived (" + o.How + ")"
	case "said":
		return "said"
	}
	if o.File == "" {
		return string(o.Kind)
	}
	return fmt.Sprintf("%s:%d", o.File, o.Line)
}
