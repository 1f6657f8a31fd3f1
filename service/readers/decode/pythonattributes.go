package decode

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.starlark.net/syntax"

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
	parsed, err := dialect.ParseExpr(e.text.file, strings.ReplaceAll(written, "\r", " "), 0)
	call, isCall := parsed.(*syntax.CallExpr)
	if err != nil || !isCall {
		return nil, false
	}
	start += strings.Index(string(e.text.bytes[start:end]), written)
	out := e.classes[m[1]].Clone()
	for _, a := range call.Args {
		pair, named := a.(*syntax.BinaryExpr)
		if !named || pair.Op != syntax.EQ {
			return nil, false // by position, or by a dictionary
		}
		from, to := below(pair.Y, written, start)
		out.Set(dotted(pair.X), e.value(from, to))
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

// formatted is the inside of a string whose braces hold expressions (f"…"), where that is all there is.
func formatted(written string) (inner string, ok bool) {
	if len(written) < 3 || written[0] != 'f' && written[0] != 'F' || written[1] != '"' && written[1] != '\'' {
		return "", false
	}
	inner = written[2 : len(written)-1]
	if written[len(written)-1] != written[1] || strings.ContainsAny(inner, "\"'\\\n") {
		return "", false
	}
	return inner, true
}

// format puts names' values between the braces of such a string; formats and other expressions are not followed.
func (e *evaluator) format(inner string) (string, bool) {
	var out strings.Builder
	for inner != "" {
		text, rest, found := strings.Cut(inner, "{")
		out.WriteString(text)
		if !found {
			return out.String(), !strings.Contains(text, "}")
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || strings.Contains(text, "}") {
			return "", false
		}
		x, err := dialect.ParseExpr(e.text.file, name, 0)
		if err != nil {
			return "", false
		}
		switch x.(type) {
		case *syntax.Ident, *syntax.DotExpr:
		default:
			return "", false
		}
		v, ok := e.eval(x, 0)
		switch v := v.(type) {
		case string:
			out.WriteString(v)
		case int64:
			out.WriteString(strconv.FormatInt(v, 10))
		default:
			return "", false
		}
		if !ok || out.Len() > 4096 {
			return "", false
		}
		inner = after
	}
	return out.String(), true
}
