package readers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/shell"
	"github.com/vramplan/vramplan/service/readers/slurm"
)

// scriptCommands are the commands of a batch script that may run, in order.
func scriptCommands(ctx context.Context, f *files, full string, text []byte) ([]command, error) {
	s := scriptText{name: f.shown(full), text: text}
	for _, c := range slurm.Script(text) {
		s.components = append(s.components, scheduled{slurmOf(s.name, c), c})
	}
	var first *setting.Settings // the script itself runs on the first component
	if len(s.components) > 0 {
		first = s.components[0].counts
	}
	s.env = slurmEnvironment(first)
	if dir := f.source.Dir; dir != "" { // where the script is handed in
		s.env["SLURM_SUBMIT_DIR"] = dir
	}
	if first != nil {
		if v, ok := first.Get("chdir"); ok {
			s.dir = f.full(v.String())
		}
	}
	return commandsOf(ctx, f, s)
}

// scriptText is a script with what is known of where it runs.
type scriptText struct {
	name string
	text []byte
	// dir is where it starts, "" for the source's own.
	dir string
	env map[string]string
	// components are those of the job that the scheduler is asked for; none where nothing asks for one.
	components []scheduled
	pods       bool
}

// scheduled is what a scheduler is asked for: as numbers of GPUs and processes, and in Slurm's own words.
type scheduled struct {
	counts *setting.Settings
	words  slurm.Component
}

// commandsOf are the commands of a script's text.
func commandsOf(ctx context.Context, f *files, s scriptText) ([]command, error) {
	script, err := shell.Read(ctx, shell.Input{Name: s.name, Text: s.text, Dir: cmp.Or(s.dir, f.source.Dir), Env: s.env,
		ReadFile: f.read, Partial: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	for i := range script.Sources {
		if within, ok := f.mounts[script.Sources[i].Name]; ok {
			script.Sources[i].Name = within
		}
	}
	var out []command
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
					one.ways = append(one.ways, commandOf(f, script, &other, words, by, &s))
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
var mpi = set("mpirun", "mpiexec")

func commandOf(f *files, script *shell.Script, c *shell.Command, words []shell.Word, by [][]shell.Word,
	s *scriptText) command {
	convert := func(w shell.Word) word { return wordOf(script, w) }
	out := command{files: f, dir: f.source.Dir, pods: s.pods, at: spanOf(script, c.At),
		doubts: doubtsOf(script, c, words, by, f.source.Lookup)}
	for _, w := range words {
		out.words = append(out.words, convert(w))
	}
	by = append(slices.Clip(c.Within), by...)
	for _, w := range by {
		for _, loose := range shell.Loose(w) {
			out.taken = append(out.taken, fmt.Sprintf("nothing that changes memory is in %s, of which only the script "+
				"knows when it runs what it is (%s)", convert(loose).name(), path.Base(w[0].Text)))
		}
		out.wrappers = append(out.wrappers, path.Base(w[0].Text))
		for i, name := range w[:len(w)-1] {
			if mpi[out.wrappers[len(out.wrappers)-1]] &&
				(name.Text == "-np" || name.Text == "-n" || name.Text == "--np") {
				v := convert(w[i+1]).argument(name.Text)
				out.ranks = &v
			}
		}
	}
	if slices.ContainsFunc(out.wrappers, func(name string) bool { return containers[name] }) {
		out.taken = append(out.taken, "the container has the files that lie here")
	}
	out.onComponents(s.components, by)
	if c.Runs == shell.Maybe {
		if out.maybe = c.Why; out.maybe == "" {
			out.maybe = "nobody knows whether"
		}
	}
	switch {
	case c.Dir.Certainty > shell.Unknown && c.Dir.Text != "":
		out.dir = c.Dir.Text
	case c.Dir.Certainty == shell.Unknown && f.source.Dir != "":
		out.lost = c.Dir.Reason
	}
	out.env = func(name string) (word, bool) {
		w, ok := c.Lookup(name)
		if !ok {
			return word{}, false
		}
		return convert(w), true
	}
	displaced := &displacedFiles{}
	out.displaced = displaced
	out.open = func(name string, dirs ...string) (string, []byte, error) {
		candidates := f.candidates(name, append([]string{out.dir}, dirs...))
		var written error
		for _, candidate := range candidates {
			text, err := script.Open(c, candidate)
			var rewritten *shell.RewrittenError
			switch {
			case err == nil:
				if exact := path.Join(out.dir, name); candidate != path.Clean(name) && candidate != exact {
					displaced.add(name, f.shown(candidate))
				}
				return candidate, text, nil
			case errors.As(err, &rewritten):
				if text, plain := f.read(candidate); plain == nil {
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
		return name, nil, missing(name)
	}
	return out
}

// wordOf turns a word of a script into one with places in files.
func wordOf(script *shell.Script, w shell.Word) word {
	out := word{Value: setting.Value{Any: w.Text, Text: w.Text, Origin: setting.Origin{Kind: setting.Argument,
		At: spanOf(script, w.At)}}, many: w.Many}
	switch w.Certainty {
	case shell.Unknown:
		out.Unknown = cmp.Or(w.Reason, "it is decided when the script runs")
	case shell.Assumed:
		out.Assumed = w.Reason
	}
	for _, p := range w.Pieces {
		out.pieces = append(out.pieces, piece{text: p.Text, at: spanOf(script, p.At), sure: p.Certainty == shell.Sure})
	}
	if !w.At.IsZero() && w.At.Source < len(script.Sources) {
		out.shown = string(script.Sources[w.At.Source].Text[w.At.Start:w.At.End])
	}
	out.place()
	return out
}

func spanOf(script *shell.Script, s shell.Span) setting.Span {
	if s.IsZero() || s.Source >= len(script.Sources) {
		return setting.Span{}
	}
	return setting.Span{File: script.Sources[s.Source].Name, Start: s.Start, End: s.End, Line: s.Line}
}
