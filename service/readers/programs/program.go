package programs

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
)

// Program is a program in Python, with what was looked for in it: once, however many commands start it.
type Program struct {
	*decode.Program
	placed            *placedCalls
	model, configures *found
	arguments         []Declared
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

// Knowing is the program read again with names of which some values are known; the program itself where that cannot be.
func (p *Program) Knowing(f *source.Files, known *setting.Settings) *Program {
	type key struct {
		program *decode.Program
		known   string
	}
	var b strings.Builder
	for _, name := range known.Keys() {
		v, _ := known.Peek(name)
		fmt.Fprintf(&b, "%q %#v\n", name, v)
	}
	return source.Once(f, key{p.Program, b.String()}, func() *Program {
		code, err := decode.PythonKnowing(p.File, p.Source, known)
		if err != nil {
			return p
		}
		return &Program{Program: code}
	})
}
