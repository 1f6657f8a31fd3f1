package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/shell"
	"github.com/vramplan/vramplan/service/readers/slurm"
	"github.com/vramplan/vramplan/service/readers/source"
)

// ScriptCommands are the commands of a batch script that may run, in order.
func ScriptCommands(ctx context.Context, f *source.Files, full string, text []byte) ([]Command, error) {
	s := ScriptText{Name: f.Shown(full), Text: text}
	for _, c := range slurm.Script(text) {
		s.Components = append(s.Components, Scheduled{slurmOf(s.Name, c), c})
	}
	var first *setting.Settings // the script itself runs on the first component
	if len(s.Components) > 0 {
		first = s.Components[0].Counts
	}
	s.Env = slurmEnvironment(first)
	if dir := f.Source.Dir; dir != "" { // where the script is handed in
		s.Env["SLURM_SUBMIT_DIR"] = dir
	}
	if first != nil {
		if v, ok := first.Get("chdir"); ok {
			s.Dir = f.Full(v.String())
		}
	}
	return CommandsOf(ctx, f, s)
}

// ScriptText is a script with what is known of where it runs.
type ScriptText struct {
	Name string
	Text []byte
	// Dir is where it starts, "" for the source's own.
	Dir string
	Env map[string]string
	// Components are those of the job that the scheduler is asked for; none where nothing asks for one.
	Components []Scheduled
	Pods       bool
}

// Scheduled is what a scheduler is asked for: as numbers of GPUs and processes, and in Slurm's own words.
type Scheduled struct {
	Counts *setting.Settings
	words  slurm.Component
}

// CommandsOf are the commands of a script's text.
func CommandsOf(ctx context.Context, f *source.Files, s ScriptText) ([]Command, error) {
	script, err := shell.Read(ctx, shell.Input{Name: s.Name, Text: s.Text, Dir: cmp.Or(s.Dir, f.Source.Dir), Env: s.Env,
		ReadFile: f.Read, Partial: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	for i := range script.Sources {
		if within, ok := f.Mounts[script.Sources[i].Name]; ok {
			script.Sources[i].Name = within
		}
	}
	var out []Command
	for i := range script.Commands {
		c := &script.Commands[i]
		if c.Runs == shell.Never {
			continue
		}
		words, by := c.Unwrap()
		if len(words) == 0 {
			continue
		}
		for _, part := range perComponent(words, by) {
			one := commandOf(f, script, c, part.words, part.by, &s)
			for _, variant := range c.Variants {
				other := *c
				other.Words = variant
				if words, by := other.Unwrap(); len(words) > 0 {
					one.Ways = append(one.Ways, commandOf(f, script, &other, words, by, &s))
				}
			}
			out = append(out, one)
		}
	}
	return out, nil
}

// slurmEnvironment are the variables that Slurm sets, as far as the script's own options fix them.
func slurmEnvironment(s *setting.Settings) map[string]string {
	env := map[string]string{}
	if s == nil {
		return env
	}
	for variable, key := range map[string]string{
		"SLURM_NNODES": "nodes", "SLURM_JOB_NUM_NODES": "nodes", "SLURM_NTASKS": "ntasks",
		"SLURM_GPUS_ON_NODE":  "gpus_on_node",
		"SLURM_GPUS_PER_NODE": "gpus_on_node", "SLURM_NTASKS_PER_NODE": "ntasks_per_node",
	} {
		if v, ok := s.Get(key); ok {
			env[variable] = v.String()
		}
	}
	return env
}

// mpi are the programs that start as many processes as -np says.
var mpi = setting.SetOf("mpirun", "mpiexec")

func commandOf(f *source.Files, script *shell.Script, c *shell.Command, words []shell.Word, by [][]shell.Word,
	s *ScriptText) Command {
	convert := func(w shell.Word) argv.Word { return wordOf(script, w) }
	out := Command{Files: f, Dir: f.Source.Dir, pods: s.Pods, At: spanOf(script, c.At),
		Doubts: doubtsOf(script, c, words, by, f.Source.Lookup)}
	uses := map[setting.Span]int{}
	for _, w := range words {
		out.Words = append(out.Words, convert(w))
		uses[out.Words[len(out.Words)-1].Origin.Use]++
	}
	for i := range out.Words {
		o := &out.Words[i].Origin
		o.Shared = o.Use.Known() && uses[o.Use] > 1
	}
	by = append(slices.Clip(c.Within), by...)
	for _, w := range by {
		for _, loose := range shell.Loose(w) {
			out.Taken = append(out.Taken, fmt.Sprintf("nothing that changes memory is in %s, of which only the script "+
				"knows when it runs what it is (%s)", convert(loose).Name(), path.Base(w[0].Text)))
		}
		out.Wrappers = append(out.Wrappers, path.Base(w[0].Text))
		for i, name := range w[:len(w)-1] {
			if mpi[out.Wrappers[len(out.Wrappers)-1]] &&
				(name.Text == "-np" || name.Text == "-n" || name.Text == "--np") {
				v := convert(w[i+1]).Argument(name.Text)
				out.ranks = &v
			}
		}
	}
	if slices.ContainsFunc(out.Wrappers, func(name string) bool { return containers[name] }) {
		out.Taken = append(out.Taken, "the container has the files that lie here")
	}
	out.onComponents(s.Components, by)
	if c.Runs == shell.Maybe {
		if out.Maybe = c.Why; out.Maybe == "" {
			out.Maybe = "nobody knows whether"
		}
	}
	switch {
	case c.Dir.Certainty > shell.Unknown && c.Dir.Text != "":
		out.Dir = c.Dir.Text
	case c.Dir.Certainty == shell.Unknown && f.Source.Dir != "":
		out.Lost = c.Dir.Reason
	}
	out.Env = func(name string) (argv.Word, bool) {
		w, ok := c.Lookup(name)
		if !ok {
			return argv.Word{}, false
		}
		return convert(w), true
	}
	displaced := &source.DisplacedFiles{}
	out.Displaced = displaced
	out.Open = func(name string, dirs ...string) (string, []byte, error) {
		candidates := f.Candidates(name, append([]string{out.Dir}, dirs...))
		var written error
		for _, candidate := range candidates {
			text, err := script.Open(c, candidate)
			var rewritten *shell.RewrittenError
			switch {
			case err == nil:
				if exact := path.Join(out.Dir, name); candidate != path.Clean(name) && candidate != exact {
					displaced.Add(name, f.Shown(candidate))
				}
				return candidate, text, nil
			case errors.As(err, &rewritten):
				if text, plain := f.Read(candidate); plain == nil {
					return candidate, text, err
				}
				written = err
			case !errors.Is(err, fs.ErrNotExist):
				return candidate, nil, err
			}
		}
		if written != nil {
			return name, nil, written
		}
		return name, nil, source.Missing(name)
	}
	return out
}

// wordOf turns a word of a script into one with places in files.
func wordOf(script *shell.Script, w shell.Word) argv.Word {
	out := argv.Word{Value: setting.Value{Any: w.Text, Text: w.Text, Origin: setting.Origin{Kind: setting.Argument,
		At: spanOf(script, w.At), Use: spanOf(script, w.Node), Through: through(script, w)}}, Many: w.Many}
	switch w.Certainty {
	case shell.Unknown:
		out.Unknown = cmp.Or(w.Reason, "it is decided when the script runs")
	case shell.Assumed:
		out.Assumed = w.Reason
	}
	for _, p := range w.Pieces {
		out.Pieces = append(out.Pieces, argv.Piece{Text: p.Text, At: spanOf(script, p.At),
			Sure: p.Certainty == shell.Sure})
	}
	if !w.At.IsZero() && w.At.Source < len(script.Sources) {
		out.Shown = string(script.Sources[w.At.Source].Text[w.At.Start:w.At.End])
	}
	out.Place()
	return out
}

// variable is the name of one at the beginning of its expansion.
var variable = regexp.MustCompile(`^\$\{?([A-Za-z_][A-Za-z_0-9]*)`)

// through are the names of the variables by which a word's pieces came.
func through(script *shell.Script, w shell.Word) string {
	var names []string
	for _, p := range w.Pieces {
		for _, via := range p.Via {
			if via.IsZero() || via.Source >= len(script.Sources) {
				continue
			}
			if m := variable.FindSubmatch(script.Sources[via.Source].Text[via.Start:via.End]); m != nil &&
				!slices.Contains(names, string(m[1])) {
				names = append(names, string(m[1]))
			}
		}
	}
	return strings.Join(names, " ")
}

func spanOf(script *shell.Script, s shell.Span) setting.Span {
	if s.IsZero() || s.Source >= len(script.Sources) {
		return setting.Span{}
	}
	return setting.Span{File: script.Sources[s.Source].Name, Start: s.Start, End: s.End, Line: s.Line}
}
