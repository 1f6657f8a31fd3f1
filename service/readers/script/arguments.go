package script

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/python/value"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// follow reads the program again with what is known of where it runs: the words of its command line, the variables that
// the script exports, and the files that it opens. A word about memory on which no call and no branch rests is asked
// about.
func (r *job) follow() {
	given, positional, open := argv.Options(r.Args, nil)
	words := map[string]string{} // the keys of the words, by the program's names for them
	world := value.World{Pairs: pairs(positional), Env: r.exported, Load: r.decoded}
	if r.Program.Text != "" {
		world.Word = func(names ...string) (setting.Value, bool) {
			for _, name := range names {
				if v, ok := r.ownWord(given, name); ok && v.Given() {
					words[names[0]] = v.Origin.Key
					return v, true
				}
			}
			if len(open) > 0 {
				return setting.Value{Text: open[0].Text, Unknown: "may be given by " + open[0].Shown,
					Origin: setting.Origin{Kind: setting.Argument, Key: names[0], At: open[0].Origin.At}}, true
			}
			return setting.Value{}, false
		}
	}
	r.Code = r.Code.In(r.Files, world)
	if r.Program.Text == "" && len(r.Code.Rests) > 0 {
		r.Out.Assume("", "the program's own arguments have their defaults: no command says otherwise")
	}
	used := map[string]bool{}
	for name, key := range words {
		used[key] = used[key] || r.Code.Rests[name]
	}
	for _, key := range given.Keys() {
		v, _ := given.Peek(key)
		if !used[v.Origin.Key] && tool.MayChangeMemory(r.inFull(key), v) && (v.Unknown != "" || !v.Off()) {
			r.Out.AskWord(v)
		}
	}
	if r.Code.Stopped > 0 {
		r.StrangeAt(setting.Span{File: r.Code.File, Line: r.Code.Stopped}, "the program",
			"is too large to be followed, and is passed over from here on")
	}
}

// pairs are words KEY=VALUE, as OmegaConf reads them.
func pairs(words []argv.Word) *setting.Settings {
	out := setting.New()
	for _, w := range words {
		key, text, ok := strings.Cut(w.Text, "=")
		if !ok || key == "" || !w.Known() {
			continue
		}
		v := w.Cut(len(key) + 1).Argument(key)
		v.Any = setting.Scalar(text)
		out.Set(key, v)
	}
	return out
}

// exported is a variable that the script gives to the program.
func (r *job) exported(name string) (setting.Value, bool) {
	if r.Env == nil {
		return setting.Value{}, false
	}
	w, ok := r.Env(name)
	if !ok {
		return setting.Value{}, false
	}
	v := w.Value
	v.Origin.Kind, v.Origin.Key = setting.Environment, name
	return v, true
}

// decoded is a file that the program opens.
func (r *job) decoded(name, format string) (*setting.Settings, bool) {
	full, text, err := r.Open(name, r.Beside(r.At), r.Beside(setting.Span{File: r.Code.File}))
	if text == nil || err != nil {
		return nil, false
	}
	shown := r.Files.Shown(full)
	switch format {
	case "json":
		s, err := decode.JSON(shown, text)
		return s, err == nil
	case "toml":
		s, err := decode.TOML(shown, text)
		return s, err == nil
	}
	all, err := decode.YAML(shown, text)
	if err != nil || len(all) == 0 {
		return nil, false
	}
	return all[0], true
}

// ownWord is a word of the command line for an argument of the program, by its whole name or a beginning that is one
// argument's alone, as argparse takes it.
func (r *job) ownWord(given *setting.Settings, name string) (setting.Value, bool) {
	if v, ok := given.Get(name); ok {
		return v, true
	}
	for _, key := range given.Keys() {
		if r.inFull(key) == name {
			return given.Get(key)
		}
	}
	return setting.Value{}, false
}

// inFull is the name of the program's argument that a word is for.
func (r *job) inFull(key string) string {
	if whole, ok := r.Code.Aliases[key]; ok {
		return whole
	}
	if r.Code.Fields.Has(key) || len(key) < 2 {
		return key
	}
	begins := slices.DeleteFunc(slices.Clone(r.Code.Fields.Keys()), func(field string) bool {
		return !strings.HasPrefix(field, key)
	})
	if len(begins) == 1 {
		return begins[0]
	}
	return key
}
