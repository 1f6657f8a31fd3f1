package value

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/setting"
)

func (f *follower) statement(n *python.Node, s *scope) flow {
	switch n.Kind {
	case "Expr":
		f.eval(n.Part("value"), s)
		if f.building != nil && n.Part("value").Is("Call") {
			f.loosely(n, s)
		}
	case "Assign":
		v := f.placed(n.Part("value"), f.eval(n.Part("value"), s))
		for _, t := range n.List("targets") {
			f.assign(t, v, s, n.Line)
		}
	case "AnnAssign":
		if n.Part("value") != nil {
			f.assign(n.Part("target"), f.placed(n.Part("value"), f.eval(n.Part("value"), s)), s, n.Line)
		}
		if target := n.Part("target"); s.of != nil && target.Is("Name") && !slices.Contains(s.of.fields, target.Name) {
			s.of.fields = append(s.of.fields, target.Name)
		}
	case "AugAssign":
		old := f.eval(n.Part("target"), s)
		v := f.operate(n.Name, old, f.eval(n.Part("value"), s), n)
		if t, ok := old.table(list); ok && n.Name == "Add" && v.Unknown == "" {
			for _, item := range v.Any.(*Table).items()[len(t.keys):] {
				f.set(t, strconv.Itoa(len(t.keys)), item)
			}
			break
		}
		f.assign(n.Part("target"), f.placed(n.Part("value"), v), s, n.Line)
	case "Delete":
		for _, t := range n.List("targets") {
			f.delete(t, s)
		}
	case "FunctionDef", "AsyncFunctionDef":
		f.define(n, s)
	case "ClassDef":
		f.defineClass(n, s)
	case "Return":
		v := known(nil)
		if x := n.Part("value"); x != nil {
			v = f.placed(x, f.eval(x, s))
		}
		if len(f.result) > 0 {
			f.result = append(f.result, v)
		}
		return returned
	case "Raise":
		f.eval(n.Part("exc"), s)
		return raised
	case "Break":
		return broke
	case "Continue":
		return continued
	case "Import", "ImportFrom":
		f.imports(n, s)
	case "Global", "Nonlocal":
		for _, name := range n.Names {
			to := f.modules
			if n.Kind == "Nonlocal" {
				for to = s.up; to != nil && to != f.modules; to = to.up {
					if _, ok := to.vars.get(name); ok {
						break
					}
				}
			}
			if to != nil && to != s {
				if s.elsewhere == nil {
					s.elsewhere = map[string]*scope{}
				}
				s.elsewhere[name] = to
			}
		}
	case "If":
		return f.decide(n, f.eval(n.Part("test"), s), func() flow { return f.block(n.List("body"), s) },
			func() flow { return f.block(n.List("orelse"), s) })
	case "For", "AsyncFor", "While":
		return f.loop(n, s)
	case "With", "AsyncWith":
		for _, item := range n.List("items") {
			v := f.placed(item.Part("context_expr"), f.eval(item.Part("context_expr"), s))
			if as := item.Part("optional_vars"); as != nil {
				f.assign(as, v, s, n.Line)
			}
		}
		return f.block(n.List("body"), s)
	case "Try", "TryStar":
		return f.try(n, s)
	case "Match":
		return f.match(n, s)
	case "Assert":
		f.eval(n.Part("test"), s)
	case python.Gap:
		if body := n.List("body"); len(body) > 0 {
			return f.either(n.Line, func() flow { return f.block(body, s) }, nothing)
		}
	}
	return onward
}

func nothing() flow { return onward }

// decide follows one of two ways by a condition, or both where it is not known.
func (f *follower) decide(n *python.Node, test Value, yes, no func() flow) flow {
	on, ok := test.truth()
	if !ok || f.world.Open && len(test.rests) > 0 {
		return f.either(n.Line, yes, no)
	}
	f.rest(test)
	if on {
		return yes()
	}
	return no()
}

// rest remembers that what is followed rests on arguments.
func (f *follower) rest(v Value) {
	for _, name := range v.rests {
		f.out.Rests[name] = true
	}
}

func (f *follower) loop(n *python.Node, s *scope) flow {
	body := n.List("body")
	after := func(end flow) flow {
		if end == returned || end == raised {
			return end
		}
		return onward
	}
	if n.Is("While") {
		if on, ok := f.eval(n.Part("test"), s).truth(); ok && !on {
			return f.block(n.List("orelse"), s)
		}
		return after(f.repeated(n, func() flow { return f.block(body, s) }))
	}
	over := f.eval(n.Part("iter"), s)
	items, ok := f.items(over)
	if ok && len(items) <= maxTurns {
		f.rest(over)
		for _, item := range items {
			f.assign(n.Part("target"), item, s, n.Line)
			if end := f.block(body, s); end == broke || end == returned || end == raised {
				return after(end)
			}
		}
		return f.block(n.List("orelse"), s)
	}
	return after(f.repeated(n, func() flow {
		f.assign(n.Part("target"), unknown(fmt.Sprintf("is another one in each turn of line %d", n.Line), over), s, n.Line)
		return f.block(body, s)
	}))
}

// repeated follows what runs an unknown number of times: what it changes of what was there is not known in any turn.
func (f *follower) repeated(n *python.Node, body func() flow) flow {
	f.silent++
	order, left := f.branch(func() { body() })
	f.silent--
	return f.either(n.Line, func() flow {
		for _, p := range order {
			if old, had := p.table.at[p.key]; had && !same(old, left[p].old) {
				f.set(p.table, p.key, changedAt(old, n.Line))
			}
		}
		if end := body(); end == returned {
			return maybeEnded
		} else if end == raised {
			return end
		}
		return onward
	}, nothing)
}

func (f *follower) try(n *python.Node, s *scope) flow {
	end := f.block(n.List("body"), s)
	for _, h := range n.List("handlers") {
		of := ""
		if t := h.Part("type"); t != nil {
			of = string(f.source[t.Start:t.End])
		}
		if strings.Contains(of, "ImportError") || strings.Contains(of, "ModuleNotFoundError") {
			continue // what a program imports is there where it runs
		}
		handled := func() flow {
			if h.Name != "" {
				f.assignName(h.Name, unknown("is an error"), s)
			}
			return f.block(h.List("body"), s)
		}
		if end == raised {
			f.maybe++
			end = handled()
			f.maybe--
			continue
		}
		f.either(h.Line, handled, nothing)
	}
	if end == onward {
		end = f.block(n.List("orelse"), s)
	}
	if final := f.block(n.List("finalbody"), s); final != onward {
		return final
	}
	return end
}

func (f *follower) match(n *python.Node, s *scope) flow {
	subject := f.eval(n.Part("subject"), s)
	var from func(cases []*python.Node) flow
	from = func(cases []*python.Node) flow {
		if len(cases) == 0 {
			return onward
		}
		c := cases[0]
		fits := f.fits(c.Part("pattern"), subject, s)
		if g := c.Part("guard"); g != nil {
			if on, ok := fits.truth(); !ok || on {
				if guard := f.eval(g, s); !ok {
					fits = unknown("", fits, guard)
					fits.Unknown = notPlain
				} else {
					fits = guard
				}
			}
		}
		return f.decide(c, fits, func() flow { return f.block(c.List("body"), s) }, func() flow { return from(cases[1:]) })
	}
	return from(n.List("cases"))
}

// fits is whether a pattern fits a value.
func (f *follower) fits(p *python.Node, v Value, s *scope) Value {
	switch {
	case p.Is("MatchAs") && p.Part("pattern") == nil:
		if p.Name != "" {
			f.assignName(p.Name, v, s)
		}
		return known(true)
	case p.Is("MatchValue"):
		return f.operate("Eq", v, f.eval(p.Part("value"), s), p)
	case p.Is("MatchOr"):
		for _, q := range p.List("patterns") {
			fit := f.fits(q, v, s)
			if on, ok := fit.truth(); !ok || on {
				return fit
			}
		}
		return known(false)
	}
	p.Walk(func(q *python.Node) bool {
		if q.Is("MatchAs", "MatchStar") && q.Name != "" {
			f.assignName(q.Name, unknown(notPlain, v), s)
		}
		return true
	})
	return unknown(notPlain, v)
}

func (f *follower) imports(n *python.Node, s *scope) {
	for _, alias := range n.List("names") {
		name, as := alias.Name, alias.Name
		if len(alias.Names) > 0 {
			as = alias.Names[0]
		} else if n.Is("Import") {
			as, _, _ = strings.Cut(name, ".")
			name = as
		}
		if n.Is("ImportFrom") {
			name = strings.Repeat(".", n.Number) + n.Name + "." + name
		}
		if as != "*" {
			f.assignName(as, known(outside(name)), s)
		}
	}
}

func (f *follower) define(n *python.Node, s *scope) {
	fn := &function{node: n, scope: s, defaults: map[string]Value{}, of: s.of}
	f.bindDefaults(fn, n.Part("args"), s)
	for _, d := range n.List("decorator_list") {
		declaration{f}.decorate(fn, d, s)
	}
	f.functions = append(f.functions, fn)
	f.assignName(n.Name, known(fn), s)
}

func (f *follower) bindDefaults(fn *function, args *python.Node, s *scope) {
	plain := append(slices.Clone(args.List("posonlyargs")), args.List("args")...)
	defaults := args.List("defaults")
	for i, d := range defaults {
		if at := len(plain) - len(defaults) + i; at >= 0 {
			fn.defaults[plain[at].Name] = f.placed(d, f.eval(d, s))
		}
	}
	for i, d := range args.List("kw_defaults") {
		if d != nil && i < len(args.List("kwonlyargs")) {
			fn.defaults[args.List("kwonlyargs")[i].Name] = f.placed(d, f.eval(d, s))
		}
	}
}

func (f *follower) defineClass(n *python.Node, s *scope) {
	c := &class{node: n, body: newTable(dict)}
	for _, b := range n.List("bases") {
		if v := f.eval(b, s); v.Any != outside("object") {
			c.bases = append(c.bases, v)
		}
	}
	for _, d := range n.List("decorator_list") {
		f.eval(d, s)
	}
	f.block(n.List("body"), &scope{vars: c.body, up: s, of: c})
	f.assignName(n.Name, known(c), s)
	for at := s; at != f.modules; at = at.up {
		if at == nil || at.of == nil {
			return // a class within a function is nobody's arguments
		}
	}
	for _, name := range c.fields {
		v, ok := c.body.get(name)
		if !ok {
			v = unknown("has no default")
		}
		if !v.Origin.At.Known() {
			v.Origin.At = setting.Span{File: f.file, Line: c.lineOf(name)}
		}
		v.Origin.Kind, v.Origin.Key = setting.Default, name
		v.Origin.Ref = v.Origin.At.Where()
		declaration{f}.keepField(name, v)
	}
}

func (c *class) lineOf(name string) int {
	for _, n := range c.node.List("body") {
		if t := n.Part("target"); n.Is("AnnAssign") && t.Is("Name") && t.Name == name {
			return n.Line
		}
	}
	return c.node.Line
}

func (f *follower) assign(target *python.Node, v Value, s *scope, line int) {
	switch {
	case target.Is("Name"):
		f.assignName(target.Name, v, s)
	case target.Is("Tuple", "List"):
		f.unpack(target.List("elts"), v, s, line)
	case target.Is("Starred"):
		f.assign(target.Part("value"), v, s, line)
	case target.Is("Attribute"):
		if s := (Set{Name: f.wrote(target), Line: target.Line}); f.silent == 0 && len(f.out.Sets) < maxCalls &&
			!slices.Contains(f.out.Sets, s) {
			f.out.Sets = append(f.out.Sets, s)
		}
		f.setAttribute(f.eval(target.Part("value"), s), target.Name, v)
	case target.Is("Subscript"):
		of, index := f.eval(target.Part("value"), s), f.eval(target.Part("slice"), s)
		t, ok := of.table()
		if of.Any == outside("os.environ") {
			t, ok = f.environ, true
		}
		if !ok {
			return
		}
		if key, plain := keyOf(index); plain && t.kind != list {
			f.set(t, key, v)
		} else if at, has := t.index(index); plain && has {
			f.set(t, at, v)
		} else {
			f.lose(t, line)
		}
	}
}

// lose makes what a table holds unknown.
func (f *follower) lose(t *Table, line int) {
	why := fmt.Sprintf("is changed at line %d in a way that cannot be followed without running it", line)
	for _, key := range t.keys {
		v := unknown(why, t.at[key])
		v.Origin = t.at[key].Origin
		f.set(t, key, v)
	}
	f.set(t, open, unknown(why))
}

func (f *follower) unpack(targets []*python.Node, v Value, s *scope, line int) {
	items, ok := f.items(v)
	star := slices.IndexFunc(targets, func(t *python.Node) bool { return t.Is("Starred") })
	if ok && (len(items) == len(targets) || star >= 0 && len(items) >= len(targets)-1) {
		for i, t := range targets {
			switch {
			case star < 0 || i < star:
				f.assign(t, items[i], s, line)
			case i == star:
				f.assign(t, sequence(list, items[i:i+len(items)-len(targets)+1]), s, line)
			default:
				f.assign(t, items[len(items)-len(targets)+i], s, line)
			}
		}
		return
	}
	for i, t := range targets {
		part := unknown(notPlain, v)
		if o, isObject := v.Any.(*Table); isObject && o.kind == object && i == 0 {
			part.Any = o // what loads a model gives it first, and its tokenizer with it
		}
		part.Origin = v.Origin
		f.assign(t, part, s, line)
	}
}

func (f *follower) assignName(name string, v Value, s *scope) {
	if to := s.elsewhere[name]; to != nil {
		s = to
	}
	f.set(s.vars, name, v)
}

func (f *follower) setAttribute(of Value, name string, v Value) {
	switch x := of.Any.(type) {
	case *Table:
		f.set(x, name, v)
		if x.made != nil && x.class == nil && f.silent == 0 {
			f.amend(x.made, name, v)
		}
	case *class:
		f.set(x.body, name, v)
	}
}

func (f *follower) delete(target *python.Node, s *scope) {
	switch {
	case target.Is("Name"):
		f.remove(s.vars, target.Name)
	case target.Is("Subscript"):
		if t, ok := f.eval(target.Part("value"), s).table(dict); ok {
			if key, plain := keyOf(f.eval(target.Part("slice"), s)); plain {
				f.remove(t, key)
			}
		}
	case target.Is("Attribute"):
		if t, ok := f.eval(target.Part("value"), s).table(); ok {
			f.remove(t, target.Name)
		}
	}
}

// lookup finds a name as the program does: in its function, around it, in the module, and in the language.
func (f *follower) lookup(name string, s *scope) Value {
	if to := s.elsewhere[name]; to != nil {
		s = to
	}
	for at := s; at != nil; at = at.up {
		if at.of != nil && at != s {
			continue // the body of a class is not around its methods
		}
		if v, ok := at.vars.get(name); ok {
			return v
		}
	}
	if builtins[name] || name == "torch" {
		return known(outside(name))
	}
	v := unknown(notPlain)
	v.Any = undefined(name)
	return v
}

// placed gives a value the place where its expression stands, unless it has one elsewhere: a word of the command line,
// a line of another file, a default.
func (f *follower) placed(n *python.Node, v Value) Value {
	if n == nil || v.Origin.Kind != "" && v.Origin.Kind != setting.File || v.Origin.At.File != "" && v.Origin.At.File != f.file {
		return v
	}
	if n.Is("Call") && v.Origin.At.Known() {
		if last := lastOf(f.wrote(n.Part("func"))); last == "field" || last == "Field" {
			return v // which stands at the default within
		}
	}
	start, end := n.Start, n.End
	v.Text = string(f.source[start:end])
	if n.Is("Constant") {
		if _, isString := n.Value.(string); isString && end-start >= 2 && f.source[start] == f.source[end-1] {
			start, end = start+1, end-1
		}
	}
	v.Origin = setting.Origin{Kind: setting.File, At: setting.Span{File: f.file, Start: start, End: end, Line: n.Line}}
	return v
}
