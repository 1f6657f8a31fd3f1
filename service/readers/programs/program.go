package programs

import (
	"context"

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

// In is the program again, where more is known of where it runs.
func (p *Program) In(f *source.Files, w value.World) *Program {
	type key struct{}
	left := source.Once(f, key{}, func() *int { n := maxSteps; return &n })
	w.Steps = *left
	code := p.Program.In(context.Background(), w)
	*left = max(1, *left-code.Steps)
	return &Program{Program: code}
}
