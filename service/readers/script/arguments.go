package script

import (
	"bytes"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// maxOwnArguments is the most that is followed of a program's own arguments.
const maxOwnArguments = 256

// bindArguments reads the program again with the values of its own arguments: those of the command line, or the
// defaults that the program declares. What the program assigns to afterwards stays unknown, and a word about memory
// that no call takes is asked about.
func (r *job) bindArguments() {
	given, _, open := argv.Options(r.Args, nil)
	if len(open) > 0 {
		return
	}
	given = r.inFull(given)
	known, words := setting.New(), map[string]string{}
	bind := func(holder string, declared *setting.Settings) {
		for _, name := range declared.Keys() {
			v, _ := declared.Peek(name)
			whole := strings.TrimPrefix(holder+"."+name, ".")
			own, said := given.Get(name)
			switch {
			case known.Len() >= maxOwnArguments || !bytes.Contains(r.Code.Source, []byte(whole)) || r.Code.Sets(whole):
				continue
			case said:
				words[whole], v = name, asDeclared(own, v)
			case r.Program.Text == "" && !v.Given() && v.Text == "":
				continue // it has no default, and there is no command line
			}
			known.Set(whole, v)
		}
	}
	for _, declared := range r.Code.Arguments() {
		bind(declared.Holder, declared.Settings)
	}
	if known.Len() > 0 {
		r.Code = r.Code.Knowing(r.Files, known)
	}
	used := map[string]bool{}
	for whole, name := range words {
		used[name] = used[name] || r.Code.Used[whole]
	}
	if r.Program.Text == "" {
		r.ownDefaults(known)
	}
	for _, key := range given.Keys() {
		if v, _ := given.Peek(key); !used[key] && tool.MayChangeMemory(key, v) && (v.Unknown != "" || !v.Off()) {
			r.Out.AskWord(v)
		}
	}
}

// ownDefaults says of a program that was handed over alone that its arguments have their defaults.
func (r *job) ownDefaults(known *setting.Settings) {
	for _, name := range known.Keys() {
		if r.Code.Used[name] {
			r.Out.Assume("", "the program's own arguments have their defaults: no command says otherwise")
			return
		}
	}
}

// inFull gives words of the command line the names that the program declares: --bs for a short flag of the same
// argument (-b), and the whole of a beginning that is one argument's alone, as argparse takes it.
func (r *job) inFull(given *setting.Settings) *setting.Settings {
	out := setting.New()
	for _, key := range given.Keys() {
		v, _ := given.Peek(key)
		name := key
		if whole, ok := r.Code.Aliases[key]; ok {
			name = whole
		} else if !r.Code.Fields.Has(key) {
			var begins []string
			for _, field := range r.Code.Fields.Keys() {
				if strings.HasPrefix(field, key) {
					begins = append(begins, field)
				}
			}
			if len(begins) == 1 && len(key) > 1 {
				name = begins[0]
			}
		}
		out.Set(name, v)
	}
	return out
}

// asDeclared makes a word of the command line the number that the argument is declared to be by its default.
func asDeclared(v, declared setting.Value) setting.Value {
	text, isText := v.Any.(string)
	if !isText || v.Unknown != "" {
		return v
	}
	switch declared.Any.(type) {
	case int64, float64:
		switch n := setting.Scalar(text).(type) {
		case int64, float64:
			v.Any = n
		}
	}
	return v
}
