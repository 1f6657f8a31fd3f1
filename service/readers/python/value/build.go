package value

import (
	"context"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Built is what a function of a program puts together and returns: a registry of configurations.
type Built struct {
	// Settings are the plain values, by the path of keywords and attributes: training.steps. Elements of lists and
	// arguments without a keyword are numbered (model_spec.0).
	Settings *setting.Settings
	// Calls are what was called for the object at each path, "" for the whole: SelectiveAC.Config.
	Calls map[string]setting.Value
	// Loose are statements that do something else with what is put together, by their text: apply(config).
	Loose []setting.Value
}

// maxBuilt is the most that is put together.
const maxBuilt = 5000

// Build follows a function of the module; ok is false where there is none of that name.
func Build(ctx context.Context, file string, source []byte, module *python.Node, name string) (b *Built, ok bool) {
	f := newFollower(ctx, file, source, World{})
	f.block(module.List("body"), f.modules)
	fn, ok := f.modules.vars.at[name].Any.(*function)
	if !ok {
		return nil, false
	}
	f.building = &Built{Settings: setting.New(), Calls: map[string]setting.Value{}}
	f.flatten("", f.enter(fn, &arguments{}), 0)
	return f.building, true
}

func (f *follower) flatten(path string, v Value, depth int) {
	b := f.building
	if !f.afford() || depth > 2*maxDepth || b.Settings.Len()+len(b.Calls) > maxBuilt {
		return
	}
	t, isTable := v.Any.(*Table)
	objects := isTable && t.kind == object
	if isTable && t.kind == list && t.why() == "" {
		for _, item := range t.items() {
			inner, is := item.Any.(*Table)
			objects = objects || is && inner.kind == object
		}
	}
	switch {
	case isTable && t.kind == object && v.Unknown != "" && t.made != nil && path != "":
		f.flat(path, f.plain(v, 0))
	case isTable && t.kind == object:
		before := b.Settings.Len()
		if f.beneath(path, t, depth); v.Unknown != "" && b.Settings.Len() == before {
			return // something was only looked at
		}
		out := v.Value
		out.Any, out.Text, out.Unknown = t.name, t.name, ""
		out.Origin.Key = t.name
		b.Calls[path] = out
	case objects:
		var names []any
		out := v.Value
		out.Unknown = ""
		for _, item := range t.items() {
			if inner, is := item.Any.(*Table); is && inner.kind == object {
				names = append(names, inner.name)
			} else {
				p := f.plain(item, 0)
				names = append(names, p.Any)
				if p.Unknown != "" {
					out.Unknown = p.Unknown
				}
			}
		}
		out.Any = names
		f.flat(path, out)
		f.beneath(path, t, depth)
	case path != "":
		f.flat(path, f.plain(v, 0))
	}
}

func (f *follower) flat(path string, v setting.Value) {
	v.Origin.Key = path
	f.building.Settings.Set(path, v)
}

func (f *follower) beneath(path string, t *Table, depth int) {
	for _, key := range t.keys {
		f.flatten(strings.TrimPrefix(path+"."+key, "."), t.at[key], depth+1)
	}
}

// loosely keeps a statement that does something with an object in a way that is not followed.
func (f *follower) loosely(n *python.Node, s *scope) {
	used := false
	n.Walk(func(x *python.Node) bool {
		if x.Is("Name") {
			t, ok := s.vars.at[x.Name].Any.(*Table)
			used = used || ok && t.kind == object
		}
		return !used
	})
	if used && len(f.building.Loose) < maxTurns {
		written := strings.Join(strings.Fields(string(f.source[n.Start:n.End])), " ")
		if len(written) > 120 {
			written = written[:120]
		}
		f.building.Loose = append(f.building.Loose, setting.Value{Text: written,
			Unknown: fmt.Sprintf("is changed at line %d in a way that cannot be followed without running it", n.Line),
			Origin: setting.Origin{Kind: setting.File, Key: written,
				At: setting.Span{File: f.file, Start: n.Start, End: n.Start, Line: n.Line}}})
	}
}
