package readers

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/source"
)

// proven reads the changed files again: the job means what is wanted, every other one is what it was, nothing more is
// asked or in doubt, and every other word of the files stands as it did.
func (p *patcher) proven(ctx context.Context, again source.Source, unlike func(*Job) string) error {
	before, err := Read(ctx, p.source)
	if err != nil {
		return err
	}
	after, err := Read(ctx, again)
	if err != nil {
		return err
	}
	own := slices.IndexFunc(before.Jobs, func(j Job) bool {
		return bytes.Equal(j.Document, p.job.Document) && reflect.DeepEqual(j.Command, p.job.Command)
	})
	switch {
	case len(after.Refusals) > len(before.Refusals):
		return p.refuse("the changed files are refused: %s", after.Refusals[len(after.Refusals)-1])
	case own < 0 || len(after.Jobs) != len(before.Jobs):
		return p.refuse("the job stands in more than one place, or another one would be it too")
	}
	for i := range before.Jobs {
		if i != own && !bytes.Equal(before.Jobs[i].Document, after.Jobs[i].Document) {
			return p.refuse("it would change another job of the files too")
		}
	}
	was, is := &before.Jobs[own], &after.Jobs[own]
	switch {
	case len(is.Questions) > len(was.Questions):
		return p.refuse("the changed files leave open: %s", is.Questions[len(is.Questions)-1].Ask)
	case len(is.Doubts) > len(was.Doubts):
		return p.refuse("the changed files are in doubt: %s", is.Doubts[len(is.Doubts)-1])
	}
	if why := unlike(is); why != "" {
		return p.refuse("%s", why)
	}
	for name := range p.byFile {
		if err := p.restStands(ctx, again, name); err != nil {
			return err
		}
	}
	return nil
}

// restStands compares every word of a changed file with what stood there before.
func (p *patcher) restStands(ctx context.Context, again source.Source, name string) error {
	old, _ := p.text(name)
	changed := patcher{source: again, files: source.New(again)}
	now, _ := changed.text(name)
	full := p.files.Full(name)
	switch ext := path.Ext(name); {
	case name == commandFile || isScript(name, old):
		before, err := launch.ScriptCommands(ctx, p.files, full, old)
		if err != nil {
			return p.refuse("%v", err)
		}
		after, err := launch.ScriptCommands(ctx, changed.files, full, now)
		if err != nil {
			return p.refuse("%v", err)
		}
		return p.commandsStand(before, after)
	case ext == ".yaml" || ext == ".yml" || ext == ".json" || ext == ".toml":
		before, err := p.files.Settings(full, old)
		if err != nil {
			return p.refuse("%v", err)
		}
		after, err := changed.files.Settings(full, now)
		if err != nil {
			return p.refuse("%v", err)
		}
		for _, key := range slices.Concat(before.Keys(), after.Keys()) {
			x, _ := before.Peek(key)
			y, _ := after.Peek(key)
			_, object := y.Any.(map[string]any)
			text, _ := x.Any.(string) // a file within the file, or a script, is read as one
			if !object && !strings.Contains(text, "\n") && !p.keys[lastWord(key)] && !p.within(key) && !reflect.DeepEqual(x.Any, y.Any) {
				return p.refuse("%s of %s would be another value too", key, name)
			}
		}
	}
	return nil
}

// within reports whether a key lies below one that changes.
func (p *patcher) within(key string) bool {
	return slices.ContainsFunc(strings.Split(key, "."), func(part string) bool { return p.keys[part] })
}

// commandsStand compares the commands of a script with those before: the job's own may have other values of the words
// that change, and those words behind others.
func (p *patcher) commandsStand(before, after []launch.Command) error {
	if len(before) != len(after) {
		return p.refuse("the changed script runs other commands")
	}
	for i := range before {
		b, a := before[i], after[i]
		own := p.job.Command != nil && b.At.Line == p.job.Command.Line
		if err := p.wordsStand(b.Words, a.Words, own); err != nil {
			return err
		}
		if len(b.Ways) != len(a.Ways) {
			return p.refuse("the changed script runs other commands")
		}
		for k := range b.Ways {
			if err := p.wordsStand(b.Ways[k].Words, a.Ways[k].Words, own); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *patcher) wordsStand(before, after []argv.Word, own bool) error {
	// said is the key that a word begins with, where it is one that changes
	said := func(w argv.Word) string {
		key, _, ok := w.Key()
		if !ok || !p.keys[lastWord(key)] {
			return ""
		}
		return lastWord(key)
	}
	i := 0
	for k := 0; k < len(after); k++ {
		a := after[k]
		if i < len(before) && before[i].Text == a.Text {
			i++
			continue
		}
		if !own {
			return p.refuse("another command would get other words: %s", a.Text)
		}
		switch {
		case i < len(before) && said(a) != "" && said(a) == said(before[i]) && strings.Contains(a.Text, "="):
			i++ // key=value
		case i < len(before) && k > 0 && said(after[k-1]) != "" && said(a) == "" && i > 0 &&
			said(before[i-1]) == said(after[k-1]):
			i++ // the value behind an option
		case said(a) != "": // a new word, with its value
			if k+1 < len(after) && !strings.Contains(a.Text, "=") && !argv.IsOption(after[k+1].Text) &&
				!(i < len(before) && before[i].Text == after[k+1].Text && p.switched(said(a))) {
				k++
			}
		default:
			return p.refuse("the command would get other words: %s", fmt.Sprintf("%.60q", a.Text))
		}
	}
	if i < len(before) {
		return p.refuse("the command would lose %s", fmt.Sprintf("%.60q", before[i].Text))
	}
	return nil
}

// switched reports whether a word was put in without a value.
func (p *patcher) switched(key string) bool {
	for _, list := range p.byFile {
		for _, r := range list {
			if strings.HasSuffix(strings.ReplaceAll(r.text, "-", "_"), key) {
				return true
			}
		}
	}
	return false
}
