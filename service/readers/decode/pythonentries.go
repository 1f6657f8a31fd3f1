package decode

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/python"
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
	x, _, err := python.ParseExpression([]byte(written))
	if err != nil {
		return nil, false
	}
	out := setting.New()
	put := func(key string, x *python.Node) {
		from, to := below(x, start)
		v := e.value(from, to)
		out.Set(key, v) // which names it, where it has no name of its own
	}
	switch x.Kind {
	case "Name":
		parts, ok := e.parts[x.Name]
		return parts, ok
	case "Dict":
		values := x.List("values")
		for i, k := range x.List("keys") {
			if k == nil {
				return nil, false
			}
			key, known := e.eval(k, 0)
			name, isString := key.(string)
			if !known || !isString {
				return nil, false
			}
			put(name, values[i])
		}
		return out, true
	case "Call":
		if dotted(x.Part("func")) != "dict" || len(x.List("args")) > 0 {
			return nil, false
		}
		for _, a := range x.List("keywords") {
			if a.Name == "" {
				return nil, false
			}
			put(a.Name, a.Part("value"))
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
