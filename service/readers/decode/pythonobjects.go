package decode

import (
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/setting"
)

func (w *builder) evaluator(locals map[string]*part) *evaluator {
	names := w.globals.Clone()
	for name, p := range locals {
		if p.call {
			names.Set(name, setting.Value{Unknown: notAValue})
			continue
		}
		names.Set(name, p.value)
	}
	return newEvaluator(w.text, names, setting.New())
}

// expression reads what stands between two places.
func (w *builder) expression(start, end int, locals map[string]*part, depth int) *part {
	for start < end && strings.IndexByte(" \t\r\n", w.text.bytes[start]) >= 0 {
		start++
	}
	written := strings.TrimRight(string(w.text.bytes[start:end]), " \t\r\n")
	plain := &part{value: w.evaluator(locals).value(start, start+len(written))}
	if w.made++; w.made > maxBuiltParts || len(written) > maxExpressionBytes || deepJSON([]byte(written)) {
		return plain
	}
	parsed, _, err := python.ParseExpression([]byte(written))
	if err != nil {
		return plain
	}
	if p := w.part(parsed, start, locals, depth); p != nil {
		return p
	}
	return plain
}

// part reads an expression that is more than a plain value; nil where it is none. start is where the text from which x
// was parsed stands in the file.
func (w *builder) part(x *python.Node, start int, locals map[string]*part, depth int) *part {
	switch x.Kind {
	case "Name":
		if p, ok := locals[x.Name]; ok {
			return w.clone(p)
		}
	case "Attribute":
		return w.lookup(dotted(x), locals)
	case "List":
		return w.list(x, start, locals, depth)
	case "Call":
		return w.call(x, start, locals, depth)
	}
	return nil
}

func (w *builder) lookup(path string, locals map[string]*part) *part {
	names := strings.Split(path, ".")
	p := locals[names[0]]
	for _, n := range names[1:] {
		if p == nil {
			return nil
		}
		p = p.parts[n]
	}
	if p == nil {
		return nil
	}
	return w.clone(p)
}

// below is the place of an expression within the text that begins at start.
func below(x *python.Node, start int) (from, to int) { return start + x.Start, start + x.End }

func (w *builder) call(x *python.Node, start int, locals map[string]*part, depth int) *part {
	name := dotted(x.Part("func"))
	from, to := below(x, start)
	if name == "" {
		return nil
	}
	p := w.object(name, from, to)
	positions := 0
	for _, a := range x.List("args") {
		from, to := below(a, start)
		if a.Is("Starred") {
			p.set("**"+strconv.Itoa(positions), &part{value: w.unknown(from, to)})
		} else {
			p.set(strconv.Itoa(positions), w.expression(from, to, locals, depth))
		}
		positions++
	}
	for _, a := range x.List("keywords") {
		if a.Name == "" {
			from, to := below(a, start)
			p.set("**"+strconv.Itoa(positions), &part{value: w.unknown(from, to)})
			positions++
			continue
		}
		from, to := below(a.Part("value"), start)
		p.set(a.Name, w.expression(from, to, locals, depth))
	}
	return w.called(p, name, positions, depth)
}

// called follows a call of a function of the file, and of dataclasses.replace.
func (w *builder) called(p *part, name string, positions, depth int) *part {
	if name == "replace" || name == "dataclasses.replace" {
		if base, ok := p.parts["0"]; ok && (base.call || len(base.parts) > 0) {
			for _, n := range p.names[1:] {
				base.set(n, p.parts[n])
			}
			return base
		}
	}
	if !strings.Contains(name, ".") && positions == 0 {
		if made, ok := w.run(name, p.parts, depth+1); ok {
			return made
		}
	}
	return p
}

// object is what a call makes, still without its parts.
func (w *builder) object(name string, from, to int) *part {
	return &part{call: true, value: setting.Value{Any: name, Text: name,
		Origin: setting.Origin{Kind: setting.File, Key: name,
			At: setting.Span{File: w.text.file, Start: from, End: to, Line: w.text.line(from)}}}}
}

// list is a list with objects in it: its value is their names, or their plain values.
func (w *builder) list(x *python.Node, start int, locals map[string]*part, depth int) *part {
	p := &part{}
	from, to := below(x, start)
	p.value = setting.Value{Text: string(w.text.bytes[from:to]), Origin: setting.Origin{Kind: setting.File,
		At: setting.Span{File: w.text.file, Start: from, End: from, Line: w.text.line(from)}}}
	objects := false
	names := []any{}
	for i, item := range x.List("elts") {
		from, to := below(item, start)
		child := w.expression(from, to, locals, depth)
		objects = objects || child.call
		if child.value.Unknown != "" {
			p.value.Unknown = child.value.Unknown
		}
		names = append(names, child.value.Any)
		p.set(strconv.Itoa(i), child)
	}
	if !objects {
		return nil
	}
	p.value.Any = names
	return p
}
