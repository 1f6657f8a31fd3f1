package decode

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// parameter is the beginning of a parameter that has a default: "name: type =" or "name=".
var parameter = regexp.MustCompile(`^\s*([A-Za-z_][A-Za-z0-9_]*)\s*(?::[^=]*)?=`)

// Parameters are the defaults that a function's definition declares, by the names of its parameters. Without such a
// function there are none.
func (p *Program) Parameters(function string) *setting.Settings {
	out := setting.New()
	defined := regexp.MustCompile(`(?m)^def[ \t]+` + regexp.QuoteMeta(strings.ToValidUTF8(function, "?")) + `[ \t]*\(`)
	m := defined.FindIndex(p.masked)
	if m == nil {
		return out
	}
	end := closing(p.masked, m[1]-1)
	t, err := newText(p.File, p.Source)
	if end < 0 || err != nil {
		return out
	}
	ev := newEvaluator(t, setting.New(), setting.New())
	for _, a := range arguments(p.masked, m[1]-1, end) {
		k := parameter.FindSubmatchIndex(p.masked[a[0]:a[1]])
		if k == nil {
			continue
		}
		name := string(p.masked[a[0]+k[2] : a[0]+k[3]])
		v := ev.value(a[0]+k[1], a[1])
		v.Origin.Kind, v.Origin.Key = setting.Default, name
		v.Origin.Ref = fmt.Sprintf("%s:%d", p.File, v.Origin.At.Line)
		out.Set(name, v)
	}
	return out
}

// Sets reports whether the program assigns to an attribute or a name: "args.batch = 4", "batch += 1", setattr.
func (p *Program) Sets(name string) bool {
	if bytes.Contains(p.masked, []byte("setattr(")) {
		return true
	}
	set := regexp.MustCompile(`(?:^|[^A-Za-z0-9_.])` + regexp.QuoteMeta(strings.ToValidUTF8(name, "?")) +
		`[ \t]*(?:[-+*/%&|^@]|//|\*\*|<<|>>|:)?=(?:[^=]|$)`)
	for _, s := range p.statements {
		code := p.masked[s.start:s.end]
		for _, m := range set.FindAllIndex(code, -1) {
			if depthOf(code, m[0]+1) == 0 {
				return true
			}
		}
	}
	return false
}

// Conditional reports whether something decides at run time whether a call is made, other than that the program is
// started as one.
func (p *Program) Conditional(c Call) bool {
	for _, s := range p.statements {
		if s.start <= c.Insert.Start && c.Insert.Start < s.end {
			return s.conditional
		}
	}
	return false
}
