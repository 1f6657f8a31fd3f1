package readers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/shell"
)

// scriptCommands are the commands of a batch script that may run, in order.
func (f *files) scriptCommands(ctx context.Context, full string, text []byte) ([]command, error) {
	slurm := slurmOf(f.shown(full), text)
	script, err := shell.Read(ctx, shell.Input{
		Name: f.shown(full), Text: text, Dir: f.source.Dir, Env: slurmEnvironment(slurm), ReadFile: f.read,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.shown(full), err)
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
		out = append(out, f.commandOf(script, c, words, by, slurm))
	}
	return out, nil
}

// slurmEnvironment are the variables that Slurm sets, as far as the script's own options fix them.
func slurmEnvironment(s *setting.Settings) map[string]string {
	if s == nil {
		return nil
	}
	env := map[string]string{}
	for variable, key := range map[string]string{
		"SLURM_NNODES": "nodes", "SLURM_JOB_NUM_NODES": "nodes", "SLURM_NTASKS": "ntasks", "SLURM_GPUS_ON_NODE": "gpus_on_node",
		"SLURM_GPUS_PER_NODE": "gpus_on_node", "SLURM_NTASKS_PER_NODE": "ntasks_per_node",
	} {
		if v, ok := s.Get(key); ok {
			env[variable] = v.String()
		}
	}
	return env
}

func (f *files) commandOf(script *shell.Script, c *shell.Command, words []shell.Word, by [][]shell.Word, slurm *setting.Settings) command {
	convert := func(w shell.Word) word { return wordOf(script, w) }
	out := command{files: f, dir: f.source.Dir, slurm: slurm, at: spanOf(script, c.At)}
	for _, w := range words {
		out.words = append(out.words, convert(w))
	}
	for _, w := range by {
		out.wrappers = append(out.wrappers, path.Base(w[0].Text))
	}
	if c.Runs == shell.Maybe {
		if out.maybe = c.Why; out.maybe == "" {
			out.maybe = "nobody knows whether"
		}
	}
	if c.Dir.Certainty > shell.Unknown && c.Dir.Text != "" {
		out.dir = c.Dir.Text
	}
	out.env = func(name string) (word, bool) {
		w, ok := c.Lookup(name)
		if !ok {
			return word{}, false
		}
		return convert(w), true
	}
	out.open = func(name string, dirs ...string) (string, []byte, error) {
		candidates := f.candidates(name, append([]string{out.dir}, dirs...))
		for _, candidate := range candidates {
			text, err := script.Open(c, candidate)
			var rewritten *shell.RewrittenError
			switch {
			case err == nil:
				return candidate, text, nil
			case errors.As(err, &rewritten):
				if text, plain := f.read(candidate); plain == nil {
					return candidate, text, err
				}
			case !errors.Is(err, fs.ErrNotExist):
				return candidate, nil, err
			}
		}
		return name, nil, fmt.Errorf("%s is not there", name)
	}
	return out
}

// wordOf turns a word of a script into one with places in files.
func wordOf(script *shell.Script, w shell.Word) word {
	out := word{Value: setting.Value{Any: w.Text, Text: w.Text, Origin: setting.Origin{Kind: setting.Argument, At: spanOf(script, w.At)}}, many: w.Many}
	switch w.Certainty {
	case shell.Unknown:
		out.Unknown = orText(w.Reason, "it is decided when the script runs")
	case shell.Assumed:
		out.Assumed = w.Reason
	}
	for _, p := range w.Pieces {
		out.pieces = append(out.pieces, piece{text: p.Text, at: spanOf(script, p.At)})
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
