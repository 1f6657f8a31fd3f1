package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// The scripts ask the program itself what may stand next: commands, flags, the values of enums, and names of the
// catalog. Where it has nothing to say, the shell completes file names.
var completionScripts = map[string]string{
	"bash": `_vramplan() {
    local IFS=$'\n'
    COMPREPLY=($(vramplan complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _vramplan vramplan
`,
	"zsh": `#compdef vramplan
_vramplan() {
    local -a candidates
    candidates=("${(@f)$(vramplan complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    candidates=(${candidates:#})
    if (( $#candidates )); then compadd -a candidates; else _files; fi
}
if [ "$funcstack[1]" = _vramplan ]; then _vramplan "$@"; else compdef _vramplan vramplan; fi
`,
	"fish": `function __vramplan
    set -l words (commandline -opc) (commandline -ct)
    vramplan complete -- $words[2..-1] 2>/dev/null
end
complete -c vramplan -f -n '__vramplan | string length -q' -a '(__vramplan)'
`,
}

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run prints the script of a shell.
func (c *completionCommand) Run(t *terminal) error {
	_, err := fmt.Fprint(t.stdout, completionScripts[c.Shell])
	return err
}

// completeCommand is what the scripts ask: the last word is the one that is being written.
type completeCommand struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints the candidates, one a line.
func (c *completeCommand) Run(ctx context.Context, t *terminal, app *kong.Kong) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, candidate := range candidates(app.Model.Node, words, func(path, name string) []string {
		return catalogNames(ctx, t, path, name)
	}) {
		if _, err := fmt.Fprintln(t.stdout, candidate); err != nil {
			return err
		}
	}
	return nil
}

// mostCandidates is more than anybody reads.
const mostCandidates = 200

// candidates are the words that may stand where the last of words is being written; none where that is a file's name.
func candidates(at *kong.Node, words []string, names func(path, begun string) []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	begun := words[len(words)-1]
	var awaits *kong.Flag // the flag whose value comes next
	for _, word := range words[:len(words)-1] {
		if awaits != nil {
			awaits = nil
			continue
		}
		if flag := flagOf(at, word); flag != nil {
			if !flag.IsBool() && !flag.IsCounter() && !strings.Contains(word, "=") {
				awaits = flag
			}
			continue
		}
		if next := childOf(at, word); next != nil {
			at = next
		}
	}
	var all []string
	switch flag, value, given := strings.Cut(begun, "="); {
	case awaits != nil:
		all = valuesOf(awaits, begun, names)
	case given && strings.HasPrefix(flag, "--"):
		if f := flagOf(at, flag); f != nil {
			for _, v := range valuesOf(f, value, names) {
				all = append(all, flag+"="+v)
			}
		}
	case strings.HasPrefix(begun, "-"):
		for _, group := range at.AllFlags(true) {
			for _, f := range group {
				all = append(all, "--"+f.Name)
			}
		}
	default:
		for _, child := range at.Children {
			if !child.Hidden {
				all = append(all, child.Name)
			}
		}
		for _, argument := range at.Positional {
			all = append(all, argument.EnumSlice()...)
		}
	}
	all = slices.DeleteFunc(all, func(c string) bool { return c == "" || !strings.HasPrefix(c, begun) })
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), mostCandidates)]
}

// valuesOf are what a flag takes, where that is a list.
func valuesOf(flag *kong.Flag, begun string, names func(path, begun string) []string) []string {
	switch flag.Name {
	case "gpu":
		return names("/v1/gpus", begun)
	case "model":
		return names("/v1/models", begun)
	}
	if flag.Enum != "" {
		return flag.EnumSlice()
	}
	return nil
}

func flagOf(at *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(word, "=")
	for _, group := range at.AllFlags(true) {
		for _, f := range group {
			if name == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
				return f
			}
		}
	}
	return nil
}

func childOf(at *kong.Node, word string) *kong.Node {
	for _, child := range at.Children {
		if child.Name == word {
			return child
		}
	}
	return nil
}

// catalogNames are ids of the built-in catalog that begin so; none where something goes wrong, which a shell could not
// show.
func catalogNames(ctx context.Context, t *terminal, path, begun string) []string {
	b, err := (&serverFlags{}).backend(t)
	if err != nil {
		return nil
	}
	body, err := b.get(ctx, path+"?page_size=500&q="+url.QueryEscape(begun))
	if err != nil {
		return nil
	}
	var list struct {
		GPUs, Models []struct{ ID string }
	}
	if json.Unmarshal(body, &list) != nil {
		return nil
	}
	var names []string
	for _, e := range append(list.GPUs, list.Models...) {
		names = append(names, e.ID)
	}
	return names
}
