package value

import (
	"slices"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Call is a call that a program makes: FastLanguageModel.from_pretrained(model_name="…").
type Call struct {
	Name     string
	Line     int
	Position []setting.Value
	Keywords *setting.Settings
	// Insert is where another keyword argument could be written: behind the last one.
	Insert setting.Span
	// Spread is a dictionary that is handed over (**kwargs) and cannot be read; nil where there is none.
	Spread *setting.Value
	// Maybe says that something decides at run time whether the call is made, other than that the program is started.
	Maybe bool
	// Of is what is called, by the name by which it is imported (trl.SFTTrainer); "" where that is not known, or the
	// program's own. Bases are the classes outside of the program that a class of its own derives of.
	Of    string
	Bases []string
	// From are the calls that made the objects that are handed over, by the keyword or the number of the argument.
	From map[string]*Call

	start int
}

// Last is the last part of the name.
func (c *Call) Last() string { return c.Name[strings.LastIndexByte(c.Name, '.')+1:] }

// Is reports whether one of the names is the call's, its last part, or that of a class from which what is made derives.
func (c *Call) Is(names ...string) bool {
	for _, name := range names { // without a function that is made for every call of every question
		if c.Name == name || c.Last() == name {
			return true
		}
		for _, base := range c.Bases {
			if lastOf(base) == name {
				return true
			}
		}
	}
	return false
}

// arguments are those of a call, worked out.
type arguments struct {
	node   *python.Node
	values []Value
	names  []string
	named  map[string]Value
	// spread is a dictionary, or a list, that is handed over and is not known.
	spread *Value
}

func (a *arguments) get(name string, position int) (Value, bool) {
	if v, ok := a.named[name]; ok {
		return v, true
	}
	if position >= 0 && position < len(a.values) {
		return a.values[position], true
	}
	return Value{}, false
}

func (a *arguments) set(name string, v Value) {
	if _, ok := a.named[name]; !ok {
		a.names = append(a.names, name)
	}
	a.named[name] = v
}

func (f *follower) call(n *python.Node, s *scope) Value {
	fn := n.Part("func")
	var callee Value
	if fn.Is("Attribute") {
		of := f.eval(fn.Part("value"), s)
		if fn.Part("value").Is("Call") && f.wrote(fn.Part("value")) == "super()" {
			callee = f.super(fn.Name, s)
		} else {
			callee = f.attribute(of, fn.Name)
			a := f.arguments(n, s)
			if v, ok := f.method(of, fn.Name, a); ok {
				f.record(n, callee, a)
				return v
			}
			return f.invoke(n, callee, &of, a)
		}
	} else {
		callee = f.eval(fn, s)
	}
	return f.invoke(n, callee, nil, f.arguments(n, s))
}

// super finds a method of a class's bases.
func (f *follower) super(name string, s *scope) Value {
	for at := s; at != nil; at = at.up {
		self, ok := at.vars.get("\x00self")
		if !ok {
			continue
		}
		of, _ := at.vars.get("\x00class")
		c, _ := of.Any.(*class)
		if c == nil {
			break
		}
		for _, b := range c.bases {
			base, isClass := b.Any.(*class)
			if !isClass {
				continue
			}
			if v, found := base.find(name); found {
				if fn, isFunction := v.Any.(*function); isFunction {
					bound := *fn
					bound.self = &self
					return known(&bound)
				}
			}
		}
		break
	}
	return unknown(notPlain)
}

func (f *follower) arguments(n *python.Node, s *scope) *arguments {
	a := &arguments{node: n, named: map[string]Value{}}
	for _, x := range n.List("args") {
		if !x.Is("Starred") {
			a.values = append(a.values, f.placed(x, f.eval(x, s)))
			continue
		}
		v := f.eval(x.Part("value"), s)
		if items, ok := f.items(v); ok {
			a.values = append(a.values, items...)
		} else {
			lost := unknown(because(v), v)
			lost = f.placed(x.Part("value"), lost)
			a.values = append(a.values, lost)
		}
	}
	for _, k := range n.List("keywords") {
		v := f.placed(k.Part("value"), f.eval(k.Part("value"), s))
		if k.Name != "" {
			a.set(k.Name, v)
			continue
		}
		t, ok := v.table(dict, object)
		if !ok || t.why() != "" || t.made != nil && t.class == nil {
			a.spread = &v
		}
		if ok && (t.made == nil || t.class != nil) {
			for _, key := range t.keys {
				a.set(key, t.at[key])
			}
		}
	}
	return a
}

// nameAt is where the name of what is called begins: of x[0].to(…) the last part is one. It is -1 where there is none.
func nameAt(x *python.Node) int {
	at := -1
	for x.Is("Attribute") {
		at, x = x.End-len(x.Name), x.Part("value")
	}
	if x.Is("Name") {
		at = x.Start
	}
	return at
}

// record keeps a call. The same call with the same arguments is one.
func (f *follower) record(n *python.Node, callee Value, a *arguments) *Call {
	from, to := nameAt(n.Part("func")), n.Part("func").End
	if from < 0 {
		return nil
	}
	c := &Call{Name: strings.Join(strings.Fields(string(f.source[from:to])), ""), Line: f.line(from), start: from,
		Keywords: setting.New(), Maybe: f.maybe > 0, From: map[string]*Call{},
		Insert: setting.Span{File: f.file, Start: n.End - 1, End: n.End - 1, Line: f.line(n.End - 1)}}
	switch x := callee.Any.(type) {
	case outside:
		if c.Of = string(x); n.Part("func").Is("Name") && lastOf(c.Of) != c.Name {
			c.Name = lastOf(c.Of) // from transformers import Trainer as T
		}
	case *class:
		c.Bases = x.outsides(0)
	}
	rests := known(nil)
	for i, v := range a.values {
		c.Position = append(c.Position, f.plain(v, 0))
		c.from(strconv.Itoa(i), v)
		rests = rests.resting(v)
	}
	for _, name := range a.names {
		v := a.named[name]
		f.keyword(c, name, v)
		c.from(name, v)
		rests = rests.resting(v)
	}
	if a.spread != nil {
		v := f.plain(*a.spread, 0)
		if v.Unknown == "" {
			v.Unknown = notPlain
		}
		c.Spread = &v
		rests = rests.resting(*a.spread)
	}
	if f.silent > 0 || len(f.calls) >= maxCalls {
		return c
	}
	f.rest(rests)
	for _, other := range f.byNode[n] {
		if alike(other, c) {
			other.Maybe = other.Maybe && c.Maybe
			return other
		}
	}
	f.byNode[n] = append(f.byNode[n], c)
	f.calls = append(f.calls, c)
	return c
}

// amend changes an argument of a call whose object is changed later: args.bf16 = True.
func (f *follower) amend(c *Call, name string, v Value) {
	if f.maybe > 0 && !c.Maybe {
		v = changedAt(v, v.Origin.At.Line)
	}
	if c.Keywords.Has(name) || !strings.HasSuffix(c.Name, "from_pretrained") {
		f.keyword(c, name, v)
	}
}

func (c *Call) from(name string, v Value) {
	if t, ok := v.Any.(*Table); ok && t.made != nil {
		c.From[name] = t.made
	}
}

// alike says whether two calls of one place have the same arguments.
func alike(a, b *Call) bool {
	equal := func(v, w setting.Value) bool {
		return v.Unknown == w.Unknown && v.Text == w.Text && v.Origin == w.Origin && Plainly(v) == Plainly(w)
	}
	return slices.EqualFunc(a.Position, b.Position, equal) && slices.Equal(a.Keywords.Keys(), b.Keywords.Keys()) &&
		!slices.ContainsFunc(a.Keywords.Keys(), func(key string) bool {
			v, _ := a.Keywords.Peek(key)
			w, _ := b.Keywords.Peek(key)
			return !equal(v, w)
		})
}

// keyword sets an argument of a call; one that is a dictionary or an object of the program's has its entries beneath
// it.
func (f *follower) keyword(c *Call, name string, v Value) {
	c.Keywords.Set(name, f.plain(v, 0))
	t, ok := v.table(dict, object)
	if !ok || t.made != nil && t.class == nil || c.Keywords.Len() > maxEntries {
		return
	}
	for _, key := range t.keys {
		if key != "" && key[0] != 0 {
			inner := f.plain(t.at[key], 0)
			if inner.Origin.Key == key {
				inner.Origin.Key = ""
			}
			c.Keywords.Set(name+"."+key, inner)
		}
	}
}

func (f *follower) line(at int) int {
	if f.ends == nil { // counted once, since every call asks
		f.ends = []int{}
		for i, c := range f.source {
			if c == '\n' {
				f.ends = append(f.ends, i)
			}
		}
	}
	before, _ := slices.BinarySearch(f.ends, at)
	return 1 + before
}

// invoke makes a call: of a function or a class of the program, or of something outside of it.
func (f *follower) invoke(n *python.Node, callee Value, of *Value, a *arguments) Value {
	made := f.record(n, callee, a)
	switch x := callee.Any.(type) {
	case *function:
		return f.enter(x, a)
	case *class:
		return f.instantiate(x, made, a)
	case outside:
		if callee.Unknown == "" {
			if v, ok := f.library(string(x), a, made); ok {
				return v
			}
		}
	}
	if x, ok := callee.Any.(undefined); ok {
		if v, ok := f.library(string(x), a, made); ok {
			return v
		}
	}
	f.escape(a)
	name := ""
	if made != nil {
		name = made.Name
	}
	o := newTable(object)
	o.made, o.name, o.vague = made, name, !ofClass(name)
	for i, v := range a.values {
		o.put(strconv.Itoa(i), v)
	}
	for _, key := range a.names {
		o.put(key, a.named[key])
	}
	if of != nil { // what a method of an object gives is often that object: model.to(…)
		if t, ok := of.Any.(*Table); ok && t.kind == object && chains[lastOf(name)] {
			return *of
		}
	}
	if derives[lastOf(name)] && made != nil {
		if base, ok := a.get("model", 0); ok {
			if t, isObject := base.Any.(*Table); isObject && t.made != nil {
				o.made = t.made
			}
		}
	}
	v := unknown(notPlain)
	v.Any = o
	if callee.Unknown == "" || made != nil {
		v.Unknown = ""
	}
	for _, w := range a.values {
		v.rests = v.resting(w).rests
	}
	return v
}

// ofClass reports whether a call is of a class or of a class's own function: SFTConfig(…),
// AutoModel.from_pretrained(…).
func ofClass(name string) bool {
	parts := strings.Split(name, ".")
	for _, part := range parts[max(0, len(parts)-2):] {
		if part != "" && part[0] >= 'A' && part[0] <= 'Z' {
			return true
		}
	}
	return false
}

func lastOf(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

var (
	// chains are methods that give the object itself (torch.nn.Module).
	chains = map[string]bool{"to": true, "cuda": true, "half": true, "bfloat16": true, "float": true, "train": true,
		"eval": true, "requires_grad_": true}
	// derives are functions that give what they are given in another form (peft 0.18.0, accelerate, torch).
	derives = map[string]bool{"get_peft_model": true, "prepare_model_for_kbit_training": true, "compile": true,
		"prepare": true, "PeftModel": true}
)

// escape follows functions that something outside is given, and that it may call with anything.
func (f *follower) escape(a *arguments) {
	for _, v := range append(slices.Clone(a.values), mapValues(a)...) {
		if fn, ok := v.Any.(*function); ok && v.Unknown == "" && !f.reached[fn.node] {
			f.enter(fn, nil)
		}
	}
}

func mapValues(a *arguments) []Value {
	out := make([]Value, 0, len(a.names))
	for _, name := range a.names {
		out = append(out, a.named[name])
	}
	return out
}

// enter follows a function with the arguments of a call; nil are arguments that nobody knows.
func (f *follower) enter(fn *function, a *arguments) Value {
	if f.depth > maxDepth*6 || !f.tick(fn.node) {
		return unknown("is too deep in the program to be followed")
	}
	if f.silent == 0 {
		f.reached[fn.node] = true
	}
	if f.active[fn.node] >= maxActive {
		return unknown("is of a function that calls itself")
	}
	f.active[fn.node]++
	f.depth += 4
	defer func() { f.depth -= 4; f.active[fn.node]-- }()
	s := &scope{vars: newTable(dict), up: fn.scope}
	f.bind(fn, a, s)
	if fn.self != nil {
		s.vars.put("\x00self", *fn.self)
		c := known(nil)
		if fn.of != nil {
			c = known(fn.of)
		}
		s.vars.put("\x00class", c)
	}
	if fn.node.Is("Lambda") {
		return f.placed(fn.node.Part("body"), f.eval(fn.node.Part("body"), s))
	}
	outer := f.result
	f.result = []Value{known(nil)}
	end := f.block(fn.node.List("body"), s)
	results := f.result[1:]
	if end != returned && end != raised {
		results = append(results, known(nil))
	}
	f.result = outer
	if len(results) == 0 {
		return unknown(notPlain)
	}
	v := results[0]
	for _, w := range results[1:] {
		v = f.common(v, w, fn.node.Line, 0)
	}
	if yields(fn.node) {
		return unknown(notPlain)
	}
	return v
}

// yields says whether a function is a generator.
func yields(fn *python.Node) bool {
	found := false
	for _, n := range fn.List("body") {
		n.Walk(func(n *python.Node) bool {
			found = found || n.Is("Yield", "YieldFrom")
			return !found && !n.Is("FunctionDef", "Lambda", "ClassDef")
		})
	}
	return found
}

// bind gives a function's parameters their values.
func (f *follower) bind(fn *function, a *arguments, s *scope) {
	args := fn.node.Part("args")
	plain := append(slices.Clone(args.List("posonlyargs")), args.List("args")...)
	var values []Value
	taken := map[string]bool{}
	if fn.self != nil {
		values = append(values, *fn.self)
	}
	if a != nil {
		values = append(values, a.values...)
	}
	give := func(p *python.Node, position int) {
		name := p.Name
		v, ok := fn.defaults[name]
		lost := unknown("is an argument of a function that nothing here calls with a known value")
		switch {
		case position >= 0 && position < len(values):
			v = values[position]
		case a == nil && fn.options == nil:
			if !ok {
				v = lost
			}
		case a != nil && has(a.named, name):
			v = a.named[name]
		case fn.options != nil && fn.options.at[name].Origin.Kind != "":
			v = fn.options.at[name]
		case a != nil && a.spread != nil:
			v = unknown(because(*a.spread), *a.spread)
		case !ok:
			v = lost
		}
		taken[name] = true
		s.vars.put(name, v)
	}
	for i, p := range plain {
		give(p, i)
	}
	for _, p := range args.List("kwonlyargs") {
		give(p, -1)
	}
	if p := args.Part("vararg"); p != nil {
		rest := unknown(notPlain)
		if a != nil {
			rest = sequence(tuple, values[min(len(plain), len(values)):])
		}
		s.vars.put(p.Name, rest)
	}
	if p := args.Part("kwarg"); p != nil {
		t := newTable(dict)
		if a == nil || a.spread != nil {
			t.at[open] = unknown(notPlain)
		}
		if a != nil {
			for _, name := range a.names {
				if !taken[name] {
					t.put(name, a.named[name])
				}
			}
		}
		s.vars.put(p.Name, known(t))
	}
}

func has(m map[string]Value, name string) bool { _, ok := m[name]; return ok }

// instantiate makes an object of a class of the program.
func (f *follower) instantiate(c *class, made *Call, a *arguments) Value {
	o := newTable(object)
	o.class, o.made, o.name = c, made, c.node.Name
	f.objects = append(f.objects, o)
	self := known(o)
	if v, ok := c.find("__init__"); ok {
		if fn, isFunction := v.Any.(*function); isFunction {
			bound := *fn
			bound.self = &self
			f.enter(&bound, a)
			return self
		}
	}
	if c.isOutside() {
		f.escape(a)
	}
	for i, name := range c.allFields() {
		if v, ok := a.get(name, i); ok {
			f.set(o, name, v)
		} else if v, ok := c.find(name); ok {
			f.set(o, name, v)
		} else if a.spread != nil {
			f.set(o, name, unknown(because(*a.spread), *a.spread))
		}
	}
	for _, name := range a.names {
		f.set(o, name, a.named[name])
	}
	if v, ok := c.find("__post_init__"); ok {
		if fn, isFunction := v.Any.(*function); isFunction {
			bound := *fn
			bound.self = &self
			f.enter(&bound, &arguments{})
		}
	}
	return self
}
