package decode

import (
	"strconv"
	"strings"

	"go.starlark.net/syntax"

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
	parsed, err := dialect.ParseExpr(w.text.file, strings.ReplaceAll(written, "\r", " "), 0)
	if err != nil {
		if p := w.foreign(start, start+len(written), locals, depth); p != nil {
			return p
		}
		return plain
	}
	if p := w.part(parsed, written, start, locals, depth); p != nil {
		return p
	}
	return plain
}

// part reads an expression that is more than a plain value; nil where it is none. written is the text from which x was
// parsed, and start where it stands in the file.
func (w *builder) part(x syntax.Expr, written string, start int, locals map[string]*part, depth int) *part {
	switch x := x.(type) {
	case *syntax.ParenExpr:
		return w.part(x.X, written, start, locals, depth)
	case *syntax.Ident:
		if p, ok := locals[x.Name]; ok {
			return w.clone(p)
		}
	case *syntax.DotExpr:
		return w.lookup(dotted(x), locals)
	case *syntax.ListExpr:
		return w.list(x, written, start, locals, depth)
	case *syntax.CallExpr:
		return w.call(x, written, start, locals, depth)
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
func below(x syntax.Expr, written string, start int) (from, to int) {
	first, last := x.Span()
	return start + offsetOf(written, first), start + offsetOf(written, last)
}

func (w *builder) call(x *syntax.CallExpr, written string, start int, locals map[string]*part, depth int) *part {
	name := dotted(x.Fn)
	from, to := below(x, written, start)
	if name == "" {
		return nil
	}
	p := w.object(name, from, to)
	positions := 0
	for _, a := range x.Args {
		argument, isNamed := a.(*syntax.BinaryExpr)
		if isNamed && argument.Op == syntax.EQ {
			key, ok := argument.X.(*syntax.Ident)
			if !ok {
				continue
			}
			start, end := below(argument.Y, written, start)
			p.set(key.Name, w.expression(start, end, locals, depth))
			continue
		}
		if unary, ok := a.(*syntax.UnaryExpr); ok && (unary.Op == syntax.STARSTAR || unary.Op == syntax.STAR) {
			from, to := below(unary, written, start)
			p.set("**"+strconv.Itoa(positions), &part{value: w.unknown(from, to)})
			positions++
			continue
		}
		start, end := below(a, written, start)
		p.set(strconv.Itoa(positions), w.expression(start, end, locals, depth))
		positions++
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

// foreign reads a call in which something is no expression of Starlark's (is, :=, f-strings), argument by argument; nil
// where it is no call.
func (w *builder) foreign(start, end int, locals map[string]*part, depth int) *part {
	m := calledWhole.FindSubmatchIndex(w.masked[start:end])
	if m == nil {
		return nil
	}
	open := start + m[1] - 1
	if closing(w.masked, open) != end-1 {
		return nil
	}
	name := string(w.masked[start+m[2] : start+m[3]])
	p := w.object(name, start, end)
	positions := 0
	for _, a := range arguments(w.masked, open, end-1) {
		if k := keyword.FindSubmatchIndex(w.masked[a[0]:a[1]]); k != nil {
			p.set(string(w.masked[a[0]+k[2]:a[0]+k[3]]), w.expression(a[0]+k[1]-1, a[1], locals, depth))
			continue
		}
		p.set(strconv.Itoa(positions), w.expression(a[0], a[1], locals, depth))
		positions++
	}
	return w.called(p, name, positions, depth)
}

// list is a list with objects in it: its value is their names, or their plain values.
func (w *builder) list(x *syntax.ListExpr, written string, start int, locals map[string]*part, depth int) *part {
	p := &part{}
	from, to := below(x, written, start)
	p.value = setting.Value{Text: string(w.text.bytes[from:to]), Origin: setting.Origin{Kind: setting.File,
		At: setting.Span{File: w.text.file, Start: from, End: from, Line: w.text.line(from)}}}
	objects := false
	names := []any{}
	for i, item := range x.List {
		from, to := below(item, written, start)
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
