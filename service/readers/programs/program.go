package programs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/python/value"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
)

// Program is a program in Python, with what was looked for in it: once, however many commands start it.
type Program struct {
	*decode.Program
	placed            *placedCalls
	model, configures *found
	// strange are trainers of modules that no reader knows; nil before they are looked for.
	strange []setting.Value
}

// found is a call that was looked for.
type found struct {
	call decode.Call
	ok   bool
}

// read is a program that was decoded, or why it could not be.
type read struct {
	program *Program
	err     error
}

// Read decodes a program once for all commands that start it. until ends the part whose assignments count, at the first
// line that begins with it; "" reads all.
func Read(f *source.Files, full string, text []byte, until string) (*Program, error) {
	type key struct {
		shown, until string
		text         source.Text
	}
	shown := f.Shown(full)
	r := source.Once(f, key{shown, until, source.TextOf(text)}, func() read {
		p, err := decode.Python(shown, text, until)
		if err != nil {
			return read{nil, err}
		}
		return read{&Program{Program: p}, nil}
	})
	return r.program, r.err
}

// maxSteps is the most that is followed of all programs of one reading together.
const maxSteps = 1 << 21

// asked is what was asked of where a program runs, and what was answered.
type asked struct {
	of     func(w value.World) string
	answer string
}

// followed is a program that was followed, with all that it asked of where it runs.
type followed struct {
	asked   []asked
	program *Program
}

// maxFollowed is of how many places a program is kept as it runs there.
const maxFollowed = 8

// In is the program again, where more is known of where it runs. It is followed once for all commands of which it asks
// the same and gets the same answers.
func (p *Program) In(f *source.Files, w value.World) *Program {
	type steps struct{}
	left := source.Once(f, steps{}, func() *int { n := maxSteps; return &n })
	type places struct{ program *decode.Program }
	before := source.Once(f, places{p.Program}, func() *[]followed { return &[]followed{} })
	for _, b := range *before {
		if !slices.ContainsFunc(b.asked, func(a asked) bool { return a.of(w) != a.answer }) {
			return b.program
		}
	}
	w.Steps = *left
	var all []asked
	code := p.Program.In(context.Background(), listening(w, &all))
	*left = max(1, *left-code.Steps)
	again := &Program{Program: code}
	if len(*before) < maxFollowed {
		*before = append(*before, followed{all, again})
	}
	return again
}

// listening is a place that keeps what is asked of it.
func listening(w value.World, all *[]asked) value.World {
	keep := func(of func(value.World) string) { *all = append(*all, asked{of, of(w)}) }
	keep(func(w value.World) string {
		return fmt.Sprintf("%t %t %t %q %s", w.Word == nil, w.Env == nil, w.Load == nil, w.Until, spelled(w.Pairs))
	})
	heard := w
	if w.Word != nil {
		heard.Word = func(names ...string) (setting.Value, bool) {
			names = slices.Clone(names)
			keep(func(w value.World) string { v, ok := w.Word(names...); return fmt.Sprintf("%#v %t", v, ok) })
			return w.Word(names...)
		}
	}
	if w.Env != nil {
		heard.Env = func(name string) (setting.Value, bool) {
			keep(func(w value.World) string { v, ok := w.Env(name); return fmt.Sprintf("%#v %t", v, ok) })
			return w.Env(name)
		}
	}
	if w.Load != nil {
		heard.Load = func(name, format string) (*setting.Settings, bool) {
			keep(func(w value.World) string { s, ok := w.Load(name, format); return fmt.Sprint(spelled(s), ok) })
			return w.Load(name, format)
		}
	}
	return heard
}

// spelled are all settings and their values in one text.
func spelled(s *setting.Settings) string {
	if s == nil {
		return ""
	}
	var b strings.Builder
	for _, key := range s.Keys() {
		v, _ := s.Peek(key)
		fmt.Fprintf(&b, "%q %#v\n", key, v)
	}
	return b.String()
}
