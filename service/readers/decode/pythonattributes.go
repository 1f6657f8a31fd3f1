package decode

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// setsAttribute is a statement that sets an attribute: cfg.batch = 4, self.batch = 4.
var setsAttribute = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z_][A-Za-z0-9_]*)` +
	`[ \t]*(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=[^=]`)

// attribute keeps what a class declares: "batch = 4", "batch: int = 4".
func (p *Program) attribute(ev *evaluator, s statement, code []byte) {
	m := assigned.FindSubmatchIndex(code)
	if m == nil || s.conditional {
		return
	}
	name := string(code[m[2]:m[3]])
	of := ev.classes[s.class]
	if of == nil {
		if len(ev.classes) >= maxUses {
			return
		}
		of = setting.New()
		ev.classes[s.class] = of
	}
	if bytes.HasPrefix(bytes.TrimLeft(code[m[1]-1:], " \t"), []byte("field(")) ||
		bytes.HasPrefix(bytes.TrimLeft(code[m[1]-1:], " \t"), []byte("dataclasses.field(")) {
		if v, ok := p.Fields.Peek(name); ok {
			of.Set(name, v)
		}
		return
	}
	of.Set(name, ev.value(s.start+m[1]-1, s.end))
}

// instance is what an object of a class of the file has: its declared attributes, and the keywords of the call.
func (e *evaluator) instance(start, end int) (*setting.Settings, bool) {
	written := strings.TrimSpace(string(e.text.bytes[start:end]))
	m := calledWhole.FindStringSubmatch(written)
	if m == nil || e.classes[m[1]] == nil || len(written) > maxExpressionBytes ||
		!e.copies(e.classes[m[1]].Len()) {
		return nil, false
	}
	call, _, err := python.ParseExpression([]byte(written))
	if err != nil || !call.Is("Call") || len(call.List("args")) > 0 {
		return nil, false
	}
	start += strings.Index(string(e.text.bytes[start:end]), written)
	out := e.classes[m[1]].Clone()
	for _, a := range call.List("keywords") {
		if a.Name == "" {
			return nil, false // by a dictionary
		}
		from, to := below(a.Part("value"), start)
		out.Set(a.Name, e.value(from, to))
	}
	return out, true
}

// changes forgets an attribute that a statement sets: of one object by its name, or of all where a method sets its own.
func (e *evaluator) changes(code []byte, line int) {
	if bytes.Contains(code, []byte("setattr(")) {
		clear(e.parts)
		clear(e.classes)
		return
	}
	m := setsAttribute.FindSubmatch(code)
	if m == nil {
		return
	}
	object, name := string(m[1]), string(m[2])
	for _, objects := range []map[string]*setting.Settings{e.parts, e.classes} {
		unknown := func(attributes *setting.Settings) {
			if old, ok := attributes.Peek(name); ok {
				old.Any, old.Unknown = nil, fmt.Sprintf(unfollowed, line)
				attributes.Replace(name, old)
			}
		}
		if object == "self" || object == "cls" {
			if !e.copies(len(objects)) {
				clear(objects)
			}
			for _, attributes := range objects {
				unknown(attributes)
			}
		} else if attributes, ok := objects[object]; ok {
			unknown(attributes)
		}
	}
}
