package value

import (
	"math"
	"math/big"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/service/readers/python"
)

func (f *follower) eval(n *python.Node, s *scope) Value {
	if n == nil {
		return known(nil)
	}
	if !f.tick(n) || f.depth > maxDepth*8 {
		return unknown("is too deep in the program to be followed")
	}
	f.depth++
	defer func() { f.depth-- }()
	switch n.Kind {
	case "Constant":
		switch x := n.Value.(type) {
		case nil, bool, float64:
			return known(x)
		case string:
			if len(x) <= maxString {
				return known(x)
			}
		case *big.Int:
			if x.IsInt64() {
				return known(x.Int64())
			}
		}
	case "Name":
		return f.lookup(n.Name, s)
	case "Attribute":
		return f.attribute(f.eval(n.Part("value"), s), n.Name)
	case "Subscript":
		return f.subscript(f.eval(n.Part("value"), s), n.Part("slice"), s)
	case "NamedExpr":
		v := f.placed(n.Part("value"), f.eval(n.Part("value"), s))
		f.assign(n.Part("target"), v, s, n.Line)
		return v
	case "UnaryOp":
		return f.unary(n.Name, f.eval(n.Part("operand"), s))
	case "BinOp":
		return f.operate(n.Name, f.eval(n.Part("left"), s), f.eval(n.Part("right"), s), n)
	case "BoolOp":
		return f.logic(n, n.List("values"), s)
	case "Compare":
		return f.compare(n, s)
	case "IfExp":
		return f.choose(n, s)
	case "List", "Set", "Tuple":
		kind := list
		if n.Is("Tuple") {
			kind = tuple
		}
		return f.sequence(kind, n.List("elts"), s)
	case "Dict":
		return f.dictionary(n, s)
	case "JoinedStr":
		return f.format(n, s)
	case "Lambda":
		fn := &function{node: n, scope: s, defaults: map[string]Value{}}
		f.bindDefaults(fn, n.Part("args"), s)
		return known(fn)
	case "Call":
		return f.call(n, s)
	case "ListComp", "SetComp", "GeneratorExp", "DictComp":
		return f.comprehend(n, s)
	case "Await", "Yield", "YieldFrom", "Starred":
		return f.eval(n.Part("value"), s)
	}
	return unknown(notPlain)
}

// choose is a conditional expression.
func (f *follower) choose(n *python.Node, s *scope) Value {
	var a, b Value
	test := f.eval(n.Part("test"), s)
	yes := func() flow { a = f.placed(n.Part("body"), f.eval(n.Part("body"), s)); return onward }
	no := func() flow { b = f.placed(n.Part("orelse"), f.eval(n.Part("orelse"), s)); return onward }
	on, ok := test.truth()
	f.decide(n, test, yes, no)
	switch {
	case !ok || f.world.Open && len(test.rests) > 0:
		return f.common(a, b, n.Line, 0).resting(test)
	case on:
		return a.resting(test)
	}
	return b.resting(test)
}

// logic is and and or, which give one of their operands.
func (f *follower) logic(n *python.Node, operands []*python.Node, s *scope) Value {
	v := f.placed(operands[0], f.eval(operands[0], s))
	if len(operands) == 1 {
		return v
	}
	on, ok := v.truth()
	if ok && on == (n.Name == "Or") {
		return v
	}
	if ok {
		return f.logic(n, operands[1:], s).resting(v)
	}
	var rest Value
	f.either(n.Line, func() flow { rest = f.logic(n, operands[1:], s); return onward }, nothing)
	if other, known := rest.truth(); known && other == (n.Name == "Or") {
		if _, isBool := rest.Any.(bool); isBool {
			return rest.resting(v)
		}
	}
	return f.common(v, rest, n.Line, 0)
}

func (f *follower) compare(n *python.Node, s *scope) Value {
	left := f.eval(n.Part("left"), s)
	out := known(true)
	for i, c := range n.List("comparators") {
		right := f.eval(c, s)
		one := f.operate(n.Names[i], left, right, n)
		if on, ok := one.truth(); !ok || !on {
			return one.resting(out)
		}
		out, left = one.resting(out), right
	}
	return out
}

func (f *follower) sequence(kind rune, elements []*python.Node, s *scope) Value {
	t := newTable(kind)
	for _, e := range elements {
		if e.Is("Starred") {
			v := f.eval(e.Part("value"), s)
			items, ok := f.items(v)
			if !ok {
				t.at[open] = unknown(notPlain, v)
			}
			for _, item := range items {
				f.set(t, strconv.Itoa(len(t.keys)), item)
			}
			continue
		}
		f.set(t, strconv.Itoa(len(t.keys)), f.placed(e, f.eval(e, s)))
	}
	return known(t)
}

func (f *follower) dictionary(n *python.Node, s *scope) Value {
	t := newTable(dict)
	values := n.List("values")
	for i, k := range n.List("keys") {
		v := f.placed(values[i], f.eval(values[i], s))
		if k == nil {
			f.merge(t, v)
			continue
		}
		if key, ok := keyOf(f.eval(k, s)); ok {
			f.set(t, key, v)
		} else {
			f.set(t, open, unknown("has entries whose names are not known"))
		}
	}
	return known(t)
}

// merge lays the entries of another table over a table's.
func (f *follower) merge(t *Table, v Value) {
	other, ok := v.table(dict, object)
	if !ok {
		f.set(t, open, unknown(notPlain, v))
		return
	}
	for _, key := range other.keys {
		f.set(t, key, other.at[key])
	}
	if why := other.why(); why != "" {
		f.set(t, open, unknown(why))
	}
}

func (f *follower) format(n *python.Node, s *scope) Value {
	var out strings.Builder
	rests := known("")
	for _, p := range n.List("values") {
		v := f.eval(p, s)
		if p.Is("FormattedValue") {
			v = f.eval(p.Part("value"), s)
			if p.Number != -1 || p.Part("format_spec") != nil {
				v = unknown(notPlain, v)
			}
		}
		rests = rests.resting(v)
		text, ok := textOf(v)
		if !ok || out.Len()+len(text) > maxString {
			return unknown(notPlain, rests)
		}
		out.WriteString(text)
	}
	rests.Any = out.String()
	return rests
}

// textOf is str() of a value.
func textOf(v Value) (string, bool) {
	if v.Unknown != "" {
		return "", false
	}
	switch x := v.Any.(type) {
	case float64:
		s := strconv.FormatFloat(x, 'g', -1, 64)
		if !strings.ContainsAny(s, ".en") {
			s += ".0"
		}
		return s, math.Abs(x) < 1e16 && math.Abs(x) >= 1e-4 || x == 0
	case nil, bool, int64, string:
		return v.wholeWord(), true
	}
	return "", false
}

func (v Value) wholeWord() string {
	if s, ok := v.Any.(string); ok {
		return s
	}
	return v.word()
}

func (f *follower) comprehend(n *python.Node, s *scope) Value {
	inner := &scope{vars: newTable(dict), up: s}
	if s.of != nil {
		inner.up = s.up
	}
	t := newTable(list)
	if n.Is("DictComp") {
		t.kind = dict
	}
	sure := true
	var over func(generators []*python.Node)
	over = func(generators []*python.Node) {
		if len(generators) == 0 {
			if n.Is("DictComp") {
				key, ok := keyOf(f.eval(n.Part("key"), inner))
				v := f.eval(n.Part("value"), inner)
				if sure = sure && ok; ok {
					f.set(t, key, v)
				}
				return
			}
			f.set(t, strconv.Itoa(len(t.keys)), f.placed(n.Part("elt"), f.eval(n.Part("elt"), inner)))
			return
		}
		g := generators[0]
		of := f.eval(g.Part("iter"), s)
		items, ok := f.items(of)
		if !ok || len(items) > maxTurns {
			sure = false
			items = []Value{unknown(notPlain, of)}
		}
		for _, item := range items {
			f.assign(g.Part("target"), item, inner, g.Line)
			taken := true
			for _, cond := range g.List("ifs") {
				on, known := f.eval(cond, inner).truth()
				sure = sure && known
				taken = taken && (on || !known)
			}
			if taken {
				over(generators[1:])
			}
		}
	}
	f.maybe++
	over(n.List("generators"))
	f.maybe--
	if !sure {
		return unknown(notPlain)
	}
	return known(t)
}

// items are what a loop goes over.
func (f *follower) items(v Value) ([]Value, bool) {
	t, ok := v.table(list, tuple, dict)
	if !ok || t.why() != "" {
		return nil, false
	}
	if t.kind != dict {
		return t.items(), true
	}
	var out []Value
	for _, k := range t.keys {
		out = append(out, fromKey(k))
	}
	return out, true
}

// keyOf is the key under which a table holds a value; numbers are told from the same numbers as words.
func keyOf(v Value) (string, bool) {
	if v.Unknown != "" {
		return "", false
	}
	switch x := v.Any.(type) {
	case string:
		return x, true
	case int64, bool, nil:
		return "\x00" + v.word(), true
	case outside:
		return "\x00" + string(x), true
	}
	return "", false
}

func fromKey(key string) Value {
	word, other := strings.CutPrefix(key, "\x00")
	if !other {
		return known(key)
	}
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return known(n)
	}
	switch word {
	case "None":
		return known(nil)
	case "True", "False":
		return known(word == "True")
	}
	return known(outside(word))
}

// index is the key of a list's entry by its number.
func (t *Table) index(v Value) (string, bool) {
	n, ok := v.Any.(int64)
	if !ok || v.Unknown != "" || t.kind != list && t.kind != tuple || t.why() != "" {
		return "", false
	}
	if n < 0 {
		n += int64(len(t.keys))
	}
	if n < 0 || n >= int64(len(t.keys)) {
		return "", false
	}
	return strconv.FormatInt(n, 10), true
}

func (f *follower) subscript(of Value, at *python.Node, s *scope) Value {
	if at.Is("Slice") {
		low, high := f.eval(at.Part("lower"), s), f.eval(at.Part("upper"), s)
		return f.slice(of, low, high, at.Part("step") != nil)
	}
	index := f.eval(at, s)
	if of.Any == outside("os.environ") {
		return f.variable(index, nil)
	}
	t, ok := of.table()
	if !ok {
		if _, isClass := of.Any.(outside); isClass && of.Unknown == "" {
			return of // a type of other types: list[int]
		}
		return unknown(because(of), of, index)
	}
	key, plain := keyOf(index)
	if t.kind == list || t.kind == tuple {
		key, plain = t.index(index)
	}
	if !plain {
		return unknown(notPlain, of, index)
	}
	v, has := t.get(key)
	if !has {
		return unknown(whyOf(t), of, index)
	}
	return v.resting(index)
}

// because is the reason of a value that is not known.
func because(v Value) string {
	if v.Unknown != "" {
		return v.Unknown
	}
	return notPlain
}

// whyOf is the reason of an entry that a table does not have.
func whyOf(t *Table) string {
	if why := t.why(); why != "" {
		return why
	}
	return notPlain
}

func (f *follower) slice(of, low, high Value, stepped bool) Value {
	length := 0
	text, isText := of.Any.(string)
	t, isTable := of.table(list, tuple)
	switch {
	case isText && of.Unknown == "":
		length = len(text)
	case isTable && t.why() == "":
		length = len(t.keys)
	default:
		return unknown(notPlain, of)
	}
	bound := func(v Value, missing int) (int, bool) {
		if v.Any == nil && v.Unknown == "" {
			return missing, true
		}
		n, ok := v.Any.(int64)
		if n < 0 {
			n += int64(length)
		}
		return int(min(max(n, 0), int64(length))), ok && v.Unknown == ""
	}
	a, okA := bound(low, 0)
	b, okB := bound(high, length)
	if !okA || !okB || stepped {
		return unknown(notPlain, of, low, high)
	}
	b = max(a, b)
	if isText {
		return known(text[a:b]).resting(of)
	}
	return sequence(t.kind, t.items()[a:b])
}

// attribute is what stands behind a point.
func (f *follower) attribute(of Value, name string) Value {
	switch x := of.Any.(type) {
	case outside:
		if of.Unknown == "" {
			return known(outside(string(x) + "." + name))
		}
	case undefined:
		v := unknown(because(of), of)
		v.Any = undefined(string(x) + "." + name)
		return v
	case string:
		if of.Unknown == "" {
			switch name {
			case "parent":
				return known(path.Dir(x)).resting(of)
			case "stem":
				return known(strings.TrimSuffix(path.Base(x), path.Ext(x))).resting(of)
			case "name":
				return known(path.Base(x)).resting(of)
			case "value":
				return of // of an Enum
			}
		}
	case *class:
		if v, ok := x.find(name); ok {
			return v
		}
	case *Table:
		if v, ok := x.get(name); ok && of.Unknown == "" {
			return v
		}
		if v, ok := x.class.find(name); ok {
			fn, isMethod := v.Any.(*function)
			if !isMethod {
				return v
			}
			self := known(x)
			bound := *fn
			bound.self = &self
			if fn.is("staticmethod", f) {
				bound.self = nil
			} else if fn.is("classmethod", f) {
				cls := known(x.class)
				bound.self = &cls
			}
			if fn.is("property", f) {
				return f.enter(&bound, &arguments{})
			}
			return known(&bound)
		}
		if prefix, words := x.at["\x00words"].Any.(string); words && f.world.Word != nil {
			if w, ok := f.world.Word(prefix + name); ok {
				v := typed("number", Value{Value: w}, Value{})
				v.rests = append(slices.Clip(v.rests), prefix+name)
				return v
			}
		}
		v := unknown(whyOf(x), of)
		if x.kind == object && x.made != nil && x.class == nil || x.kind == object && x.name == "" {
			inner := newTable(object) // what it has is not known, and may be set
			v.Any = inner
			f.set(x, name, v)
		}
		return v
	}
	return unknown(because(of), of)
}

func (fn *function) is(decorator string, f *follower) bool {
	for _, d := range fn.node.List("decorator_list") {
		if string(f.source[d.Start:d.End]) == decorator {
			return true
		}
	}
	return false
}

func (f *follower) unary(op string, v Value) Value {
	if op == "Not" {
		if on, ok := v.truth(); ok {
			return known(!on).resting(v)
		}
		return unknown(because(v), v)
	}
	if v.Unknown == "" {
		switch x := v.Any.(type) {
		case int64:
			switch op {
			case "USub":
				return known(-x).resting(v)
			case "UAdd":
				return known(x).resting(v)
			}
		case float64:
			if op == "USub" {
				return known(-x).resting(v)
			}
		}
	}
	return unknown(because(v), v)
}

// operate works out one operation as Python would; integers that leave 53 bits are not followed.
func (f *follower) operate(op string, a, b Value, n *python.Node) Value {
	lost := unknown(because(a), a, b)
	if a.Unknown == "" {
		lost.Unknown = because(b)
	}
	sure := a.Unknown == "" && b.Unknown == ""
	give := func(x any) Value { return known(x).resting(a).resting(b) }
	switch op {
	case "Is", "IsNot":
		s, isS := a.Any.(*Table)
		t, isT := b.Any.(*Table)
		switch {
		case !sure, isS && s.vague, isT && t.vague:
		case a.Any == nil || b.Any == nil:
			return give((a.Any == nil && b.Any == nil) == (op == "Is"))
		default:
			p, okP := a.Any.(bool)
			q, okQ := b.Any.(bool)
			if okP && okQ {
				return give((p == q) == (op == "Is"))
			}
		}
		return lost
	case "In", "NotIn":
		if in, ok := contains(a, b); ok {
			return give(in == (op == "In"))
		}
		return lost
	}
	if !sure {
		return lost
	}
	if x, ok := a.Any.(bool); ok && op != "Eq" && op != "NotEq" {
		a.Any = asInt(x)
	}
	if x, ok := b.Any.(bool); ok && op != "Eq" && op != "NotEq" {
		b.Any = asInt(x)
	}
	switch x := a.Any.(type) {
	case string:
		y, isText := b.Any.(string)
		switch {
		case isText && op == "Add" && len(x)+len(y) <= maxString:
			return give(x + y)
		case isText && op == "Div":
			return give(path.Join(x, y))
		case isText && op == "Lt":
			return give(x < y)
		case isText && op == "Gt":
			return give(x > y)
		case op == "Mod":
			return lost
		}
	case *Table:
		if y, ok := b.table(list, tuple); ok && op == "Add" && x.kind == y.kind && x.why() == "" && y.why() == "" &&
			len(x.keys)+len(y.keys) <= maxEntries {
			return sequence(x.kind, append(x.items(), y.items()...))
		}
		if times, ok := b.Any.(int64); ok && op == "Mult" && x.kind == list && times >= 0 && times <= maxEntries &&
			int64(len(x.keys))*times <= maxEntries {
			var all []Value
			for range times {
				all = append(all, x.items()...)
			}
			return sequence(list, all)
		}
		if y, ok := b.table(dict); ok && op == "BitOr" && x.kind == dict {
			out := newTable(dict)
			f.merge(out, a)
			f.merge(out, known(y))
			return known(out)
		}
	}
	if op == "Eq" || op == "NotEq" {
		if equal, ok := equals(a, b, 0); ok {
			return give(equal == (op == "Eq"))
		}
		return lost
	}
	if x, ok := arithmetic(op, a.Any, b.Any); ok {
		return give(x)
	}
	return lost
}

func asInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// equals says whether two known values are equal, where that can be told.
func equals(a, b Value, depth int) (equal, ok bool) {
	if depth > maxJoined || a.Unknown != "" || b.Unknown != "" {
		return false, false
	}
	x, _, okX := number(a.Any)
	y, _, okY := number(b.Any)
	if okX && okY {
		return x == y, true
	}
	plain := func(v Value) bool {
		switch v.Any.(type) {
		case nil, bool, int64, float64, string:
			return true
		}
		return false
	}
	if plain(a) && plain(b) {
		return a.Any == b.Any, true
	}
	s, okS := a.table(list, tuple)
	t, okT := b.table(list, tuple)
	if okS && okT && s.why() == "" && t.why() == "" {
		if len(s.keys) > maxTurns {
			return false, false
		}
		if len(s.keys) != len(t.keys) || s.kind != t.kind {
			return false, true
		}
		for i, v := range s.items() {
			if e, ok := equals(v, t.at[t.keys[i]], depth+1); !ok || !e {
				return false, ok
			}
		}
		return true, true
	}
	o, okO := a.Any.(outside)
	p, okP := b.Any.(outside)
	if okO && okP && o == p {
		return true, true
	}
	return false, false
}

// contains says whether a value is in another.
func contains(a, b Value) (in, ok bool) {
	if a.Unknown != "" || b.Unknown != "" {
		return false, false
	}
	if whole, isText := b.Any.(string); isText {
		part, isPart := a.Any.(string)
		return strings.Contains(whole, part), isPart
	}
	t, isTable := b.table(list, tuple, dict)
	if !isTable {
		return false, false
	}
	if t.kind == dict {
		key, plain := keyOf(a)
		_, has := t.get(key)
		return has, plain && (has || t.why() == "")
	}
	sure := t.why() == ""
	for _, item := range t.items() {
		e, known := equals(a, item, 0)
		if known && e {
			return true, true
		}
		sure = sure && known
	}
	return false, sure
}

// arithmetic works out one operation of two numbers.
func arithmetic(op string, a, b any) (any, bool) {
	x, xFloat, okX := number(a)
	y, yFloat, okY := number(b)
	if !okX || !okY {
		return nil, false
	}
	var r float64
	switch op {
	case "Add":
		r = x + y
	case "Sub":
		r = x - y
	case "Mult":
		r = x * y
	case "Div", "FloorDiv", "Mod":
		if y == 0 {
			return nil, false
		}
		if r = x / y; op != "Div" {
			r = math.Floor(r)
		}
		if op == "Mod" {
			r = x - r*y
		}
	case "Lt":
		return x < y, true
	case "Gt":
		return x > y, true
	case "LtE":
		return x <= y, true
	case "GtE":
		return x >= y, true
	case "LShift":
		if xFloat || yFloat || x < 0 || y < 0 || y > 53 {
			return nil, false
		}
		r = x * math.Pow(2, y)
	case "Pow":
		if xFloat || yFloat || x < 0 || y < 0 {
			return nil, false
		}
		r = math.Pow(x, y)
	default:
		return nil, false
	}
	if math.IsNaN(r) || math.Abs(r) > 1<<53 {
		return nil, false
	}
	if xFloat || yFloat || op == "Div" {
		return r, true
	}
	return int64(r), true
}

func number(v any) (value float64, float, ok bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), false, v <= 1<<53 && v >= -1<<53
	case float64:
		return v, true, true
	case bool:
		return float64(asInt(v)), false, true
	}
	return 0, false, false
}

// wrote is an expression as it is written, in one line.
func (f *follower) wrote(n *python.Node) string {
	return strings.Join(strings.Fields(string(f.source[n.Start:n.End])), "")
}
