package decode

import (
	"bytes"
	"context"
	"fmt"

	"github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/python/value"
)

// Program is what a Python file does, as far as that can be followed without running it.
type Program struct {
	File string
	value.Followed
	// Source is the text.
	Source []byte
	// Gaps are the statements that are no Python, which may do anything.
	Gaps   []*python.Error
	masked []byte
	module *python.Node
}

// Call is a call that a program makes.
type Call = value.Call

// Python reads a program. until ends the part whose assignments count, at the first statement that begins with it; ""
// reads all.
func Python(file string, b []byte, until string) (*Program, error) {
	p, err := parsed(file, b)
	if err == nil {
		p.Followed = *value.Follow(context.Background(), file, b, p.module, value.World{Until: until, Open: true})
	}
	return p, err
}

// In is the program again, where more is known of where it runs.
func (p *Program) In(ctx context.Context, w value.World) *Program {
	again := *p
	again.Followed = *value.Follow(ctx, p.File, p.Source, p.module, w)
	return &again
}

func parsed(file string, b []byte) (*Program, error) {
	if _, err := newText(file, b); err != nil {
		return nil, err
	}
	p := &Program{File: file, Source: b, masked: python.Masked(b)}
	var err error
	if p.module, p.Gaps, err = python.Parse(b); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// Tree is the whole program.
func (p *Program) Tree() *python.Node { return p.module }

// Call is the first call whose last name is one of these, or of a class that derives of one.
func (p *Program) Call(names ...string) (found Call, ok bool) {
	for _, c := range p.Calls {
		if c.Is(names...) {
			return c, true
		}
	}
	return found, ok
}

// Mentions reports whether the code, without its strings and comments, contains a word.
func (p *Program) Mentions(word string) bool { return bytes.Contains(p.masked, []byte(word)) }

// Conditional reports whether something decides at run time whether a call is made, other than that the program is
// started as one.
func (p *Program) Conditional(c Call) bool { return c.Maybe }

// Built is what a function of a Python file puts together and returns.
type Built = value.Built

// Builders lists the functions at the top of a Python file whose result is said to be of a type, in their order;
// functions whose name begins with an underscore are not for others.
func Builders(text []byte, result string) []string {
	p, err := parsed("", text)
	if err != nil {
		return nil
	}
	var names []string
	for _, n := range p.module.List("body") {
		if of := n.Part("returns"); n.Is("FunctionDef") && of != nil && n.Name[0] != '_' &&
			string(text[of.Start:of.End]) == result {
			names = append(names, n.Name)
		}
	}
	return names
}

// Build reads what the function returns; ok is false where the file has no function of that name. An error is that of a
// text that is no program.
func Build(file string, text []byte, function string) (b *Built, ok bool, err error) {
	p, err := parsed(file, text)
	if err != nil {
		return nil, false, err
	}
	b, ok = value.Build(context.Background(), file, text, p.module, function)
	return b, ok, nil
}
