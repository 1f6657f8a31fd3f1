package decode

import (
	"bytes"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// entries are the parts of a dictionary that is written down ({"dtype": "bfloat16"}, dict(dtype="bfloat16")) or that a
// name holds, each with its own place: those that are no plain values are unknown and do not hide the others.
func (e *evaluator) entries(start, end int) (*setting.Settings, bool) {
	b := e.text.bytes[start:end]
	trimmed := strings.TrimLeft(string(b), " \t\r\n")
	start += len(b) - len(trimmed)
	written := strings.TrimRight(trimmed, " \t\r\n")
	if len(written) > maxExpressionBytes || deepJSON([]byte(written)) {
		return nil, false
	}
	parsed, err := dialect.ParseExpr(e.text.file, strings.ReplaceAll(written, "\r", " "), 0)
	if err != nil {
		return nil, false
	}
	out := setting.New()
	put := func(key string, x syntax.Expr) {
		from, to := below(x, written, start)
		v := e.value(from, to)
		out.Set(key, v) // which names it, where it has no name of its own
	}
	switch x := parsed.(type) {
	case *syntax.Ident:
		parts, ok := e.parts[x.Name]
		return parts, ok
	case *syntax.DictExpr:
		for _, item := range x.List {
			pair, isPair := item.(*syntax.DictEntry)
			if !isPair {
				return nil, false
			}
			key, known := e.eval(pair.Key, 0)
			name, isString := key.(string)
			if !known || !isString {
				return nil, false
			}
			put(name, pair.Value)
		}
		return out, true
	case *syntax.CallExpr:
		if dotted(x.Fn) != "dict" {
			return nil, false
		}
		for _, item := range x.Args {
			pair, isPair := item.(*syntax.BinaryExpr)
			if !isPair || pair.Op != syntax.EQ {
				return nil, false
			}
			put(dotted(pair.X), pair.Y)
		}
		return out, true
	}
	return nil, false
}

// keyword sets an argument of a call; one that is a dictionary has its entries beneath it too.
func (c *Call) keyword(ev *evaluator, name string, start, end int) {
	v := ev.value(start, end)
	c.Keywords.Set(name, v)
	parts, ok := ev.entries(start, end)
	if !ok || !ev.copies(parts.Len()) {
		return
	}
	for _, key := range parts.Keys() {
		inner, _ := parts.Peek(key)
		if inner.Origin.Key == key {
			inner.Origin.Key = ""
		}
		c.Keywords.Set(name+"."+key, inner)
	}
}

// spread sets the arguments of a dictionary that a call is given by its name: SFTConfig(**kwargs).
func (c *Call) spread(ev *evaluator, start, end int) {
	parts, ok := ev.entries(start, end)
	if !ok || !ev.copies(parts.Len()) {
		v := ev.value(start, end)
		c.Spread = &v
		return
	}
	for _, key := range parts.Keys() {
		v, _ := parts.Peek(key)
		c.Keywords.Set(key, v)
	}
}

// spreadAt finds what stands behind the two stars of an argument.
func spreadAt(argument []byte) (at int, ok bool) {
	trimmed := bytes.TrimLeft(argument, " \t\r\n")
	if !bytes.HasPrefix(trimmed, []byte("**")) {
		return 0, false
	}
	return len(argument) - len(trimmed) + 2, true
}
