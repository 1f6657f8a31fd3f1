package python

import (
	"bytes"
	"fmt"
)

// maxDepth is the most that a tree is deep, and maxNested the most that statements and expressions are nested.
const (
	maxDepth  = 1000
	maxNested = 120
)

// MaxBytes is the largest program that is read.
const MaxBytes = 4 << 20

// Error is what is wrong with a program, and where.
type Error struct {
	Line int
	Why  string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d %s", e.Line, e.Why) }

type parser struct {
	src    []byte
	lines  lines
	tokens []token
	i      int
	nested int
	// strings is how many f-strings this expression stands in.
	strings int
	gaps    []*Error
}

// Parse reads a program: a Module whose body is its statements. Statements that cannot be read are Gaps in it, and
// come back as errors too; the error is for what is no program at all.
func Parse(src []byte) (module *Node, gaps []*Error, err error) {
	if len(src) > MaxBytes {
		return nil, nil, &Error{1, fmt.Sprintf("begins a program of %d bytes; at most %d are read", len(src), MaxBytes)}
	}
	if i := bytes.IndexByte(src, 0); i >= 0 {
		return nil, nil, &Error{newLines(src).of(i), "has a byte 0, which no program has"}
	}
	from := 0
	if bytes.HasPrefix(src, []byte("\xef\xbb\xbf")) {
		from = 3
	}
	p := &parser{src: src, lines: newLines(src), tokens: tokens(src, from, len(src), false)}
	m := &Node{Kind: "Module", Line: 1, End: len(src)}
	if body := p.statements(); body != nil {
		m.parts = []part{{name: "body", list: body}}
	}
	return m, p.gaps, nil
}

// ParseExpression reads one expression, as it may stand behind an equals sign; end is behind its brackets, which are
// no part of it.
func ParseExpression(src []byte) (x *Node, end int, err error) {
	if len(src) > MaxBytes {
		return nil, 0, &Error{1, "is too long"}
	}
	p := &parser{src: src, lines: newLines(src), tokens: tokens(src, 0, len(src), true)}
	err = p.try(func() {
		x = p.starExpressions()
		if p.peek().kind != endToken {
			p.fail("has more behind an expression")
		}
		end = p.tokens[p.i-1].end
	})
	return x, end, err
}

// failure carries an Error from where it is found to the statement.
type failure struct{ err *Error }

func (p *parser) try(f func()) (err error) {
	nested, at := p.nested, p.strings
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			p.nested, p.strings, err = nested, at, r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

func (p *parser) fail(format string, a ...any) {
	t := p.peek()
	why := fmt.Sprintf(format, a...)
	if t.kind == badToken {
		why = t.why
	}
	panic(failure{&Error{p.lines.of(t.start), why}})
}

func (p *parser) unexpected() {
	switch t := p.peek(); t.kind {
	case endToken:
		p.fail("ends where more is expected")
	case newlineToken:
		p.fail("ends where more is expected")
	case indentToken:
		p.fail("is indented where nothing asks for it")
	case dedentToken:
		p.fail("ends where an indented block is expected")
	default:
		p.fail("has %q where the grammar has no such thing", shortened(p.text(t)))
	}
}

func shortened(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

func (p *parser) down() {
	if p.nested++; p.nested > maxNested {
		p.fail("is nested more than %d times", maxNested)
	}
}

func (p *parser) up() { p.nested-- }

func (p *parser) peek() token { return p.tokens[p.i] }

func (p *parser) ahead(n int) token { return p.tokens[min(p.i+n, len(p.tokens)-1)] }

func (p *parser) text(t token) string { return string(p.src[t.start:t.end]) }

func (p *parser) next() token {
	t := p.tokens[p.i]
	if p.i < len(p.tokens)-1 {
		p.i++
	}
	return t
}

// at reports whether the next token is this operator or keyword.
func (p *parser) at(s string) bool { return p.is(p.peek(), s) }

func (p *parser) is(t token, s string) bool {
	return (t.kind == operatorToken || t.kind == keywordToken) && string(p.src[t.start:t.end]) == s
}

func (p *parser) soft(s string) bool {
	t := p.peek()
	return t.kind == nameToken && string(p.src[t.start:t.end]) == s
}

func (p *parser) take(s string) bool {
	if p.at(s) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(s string) {
	if !p.take(s) {
		if p.peek().kind == operatorToken || p.peek().kind == keywordToken || p.peek().kind == nameToken {
			p.fail("has %q where %q is expected", shortened(p.text(p.peek())), s)
		}
		p.unexpected()
	}
}

func (p *parser) name() string {
	if p.peek().kind != nameToken {
		p.fail("has no name where one is expected")
	}
	return p.text(p.next())
}

// node is one that begins at a place and ends with the token before the next one.
func (p *parser) node(kind string, start int, parts ...part) *Node {
	end := start
	for i := p.i - 1; i >= 0; i-- {
		if t := p.tokens[i]; t.kind > dedentToken && (t.kind != operatorToken || p.src[t.start] != ';') {
			end = max(start, t.end)
			break
		}
	}
	n := &Node{Kind: kind, Start: start, End: end, Line: p.lines.of(start)}
	for _, c := range parts {
		if c.node == nil && len(c.list) == 0 {
			continue
		}
		n.parts = append(n.parts, c)
		if c.node != nil {
			n.depth = max(n.depth, c.node.depth+1)
		}
		for _, x := range c.list {
			if x != nil {
				n.depth = max(n.depth, x.depth+1)
			}
		}
	}
	if n.depth > maxDepth {
		p.fail("is deeper than %d", maxDepth)
	}
	return n
}

func one(name string, n *Node) part        { return part{name: name, node: n} }
func many(name string, list []*Node) part  { return part{name: name, list: list} }
func (n *Node) named(s string) *Node       { n.Name = s; return n }
func (n *Node) with(names ...string) *Node { n.Names = names; return n }
func (n *Node) counted(i int) *Node        { n.Number = i; return n }

// statements are those of a file or of a block; a block's end is taken.
func (p *parser) statements() []*Node {
	var out []*Node
	for {
		switch p.peek().kind {
		case endToken:
			return out
		case dedentToken:
			p.next()
			if p.nested == 0 {
				continue // of a block that nothing asked for
			}
			return out
		case newlineToken:
			p.next()
			continue
		}
		from := p.i
		start := p.peek().start
		var read []*Node
		err := p.try(func() { read = p.statement() })
		if err == nil {
			out = append(out, read...)
			continue
		}
		out = append(out, p.gap(from, start, err.(*Error)))
	}
}

// gap passes a statement that cannot be read, to the end of its logical line, and reads what is indented under it.
func (p *parser) gap(from, start int, err *Error) *Node {
	p.i = from
	if len(p.gaps) < 100 {
		p.gaps = append(p.gaps, err)
	}
	for k := p.peek().kind; k != newlineToken && k != endToken && k != indentToken &&
		k != dedentToken; k = p.peek().kind {
		p.i++
	}
	if p.peek().kind == newlineToken {
		p.i++
	}
	n := p.node(Gap, start)
	n.Name = err.Why
	if p.peek().kind == indentToken && p.nested < maxNested {
		p.i++
		p.nested++
		body := p.statements()
		p.nested--
		if body != nil {
			n.parts = []part{{name: "body", list: body}}
		}
		for _, x := range body {
			n.depth = max(n.depth, x.depth+1)
		}
	} else if p.peek().kind == indentToken {
		for depth := 0; p.peek().kind != endToken; p.i++ {
			if k := p.peek().kind; k == indentToken {
				depth++
			} else if k == dedentToken {
				if depth--; depth == 0 {
					p.i++
					break
				}
			}
		}
	}
	return n
}

func (p *parser) block() []*Node {
	p.expect(":")
	if p.peek().kind != newlineToken {
		return p.simple()
	}
	p.next()
	if p.peek().kind != indentToken {
		p.fail("has no indented block where one is expected")
	}
	p.next()
	p.down()
	defer p.up()
	return p.statements()
}

func (p *parser) statement() []*Node {
	t := p.peek()
	if t.kind == keywordToken {
		var n *Node
		switch p.text(t) {
		case "if":
			n = p.ifStatement()
		case "while":
			p.next()
			test := p.namedExpression()
			body := p.block()
			n = p.node("While", t.start, one("test", test), many("body", body), many("orelse", p.orElse()))
		case "for":
			n = p.forStatement("For", t.start)
		case "try":
			n = p.tryStatement()
		case "with":
			n = p.withStatement("With", t.start)
		case "def":
			n = p.function("FunctionDef", t.start, nil)
		case "class":
			n = p.class(nil)
		case "async":
			n = p.asynchronous(nil)
		}
		if n != nil {
			return []*Node{n}
		}
	}
	if p.at("@") {
		return []*Node{p.decorated()}
	}
	if p.soft("match") {
		if n := p.matchStatement(); n != nil {
			return []*Node{n}
		}
	}
	return p.simple()
}

func (p *parser) simple() []*Node {
	var out []*Node
	for {
		out = append(out, p.small())
		if p.take(";") && p.peek().kind != newlineToken {
			continue
		}
		if p.peek().kind != newlineToken {
			p.unexpected()
		}
		p.next()
		return out
	}
}

func (p *parser) small() *Node {
	t := p.peek()
	if t.kind == nameToken && p.soft("type") && p.ahead(1).kind == nameToken &&
		(p.is(p.ahead(2), "=") || p.is(p.ahead(2), "[")) {
		return p.typeAlias()
	}
	if t.kind != keywordToken {
		return p.assignment()
	}
	word := p.text(t)
	switch word {
	case "pass", "break", "continue":
		p.next()
		return p.node(map[string]string{"pass": "Pass", "break": "Break", "continue": "Continue"}[word], t.start)
	case "return":
		p.next()
		var v *Node
		if !p.lineOver() {
			v = p.starExpressions()
		}
		return p.node("Return", t.start, one("value", v))
	case "raise":
		p.next()
		var x, cause *Node
		if !p.lineOver() {
			if x = p.expression(); p.take("from") {
				cause = p.expression()
			}
		}
		return p.node("Raise", t.start, one("exc", x), one("cause", cause))
	case "assert":
		p.next()
		var msg *Node
		test := p.expression()
		if p.take(",") {
			msg = p.expression()
		}
		return p.node("Assert", t.start, one("test", test), one("msg", msg))
	case "del":
		p.next()
		var targets []*Node
		for !p.lineOver() {
			x := p.primary()
			p.target(x, true)
			targets = append(targets, x)
			if !p.take(",") {
				break
			}
		}
		return p.node("Delete", t.start, many("targets", targets))
	case "global", "nonlocal":
		p.next()
		names := []string{p.name()}
		for p.take(",") {
			names = append(names, p.name())
		}
		return p.node(map[string]string{"global": "Global", "nonlocal": "Nonlocal"}[word], t.start).with(names...)
	case "import":
		p.next()
		names := []*Node{p.alias(true)}
		for p.take(",") {
			names = append(names, p.alias(true))
		}
		return p.node("Import", t.start, many("names", names))
	case "from":
		return p.importFrom()
	}
	return p.assignment()
}

func (p *parser) lineOver() bool { return p.peek().kind == newlineToken || p.at(";") }

func (p *parser) dottedName() string {
	s := p.name()
	for p.take(".") {
		s += "." + p.name()
	}
	return s
}

func (p *parser) alias(points bool) *Node {
	start := p.peek().start
	var s string
	if points {
		s = p.dottedName()
	} else {
		s = p.name()
	}
	var as []string
	if p.take("as") {
		as = []string{p.name()}
	}
	return p.node("alias", start).named(s).with(as...)
}

func (p *parser) importFrom() *Node {
	start := p.next().start
	level, module := 0, ""
	for {
		if p.take(".") {
			level++
		} else if p.take("...") {
			level += 3
		} else {
			break
		}
	}
	if !p.at("import") {
		module = p.dottedName()
	}
	p.expect("import")
	var names []*Node
	if t := p.peek(); p.take("*") {
		names = append(names, p.node("alias", t.start).named("*"))
	} else if p.take("(") {
		for !p.at(")") {
			names = append(names, p.alias(false))
			if !p.take(",") {
				break
			}
		}
		p.expect(")")
	} else {
		names = append(names, p.alias(false))
		for p.take(",") {
			names = append(names, p.alias(false))
		}
	}
	return p.node("ImportFrom", start, many("names", names)).named(module).counted(level)
}

func (p *parser) typeAlias() *Node {
	start := p.next().start
	t := p.peek()
	p.next()
	name := p.node("Name", t.start).named(p.text(t))
	params := p.typeParameters()
	p.expect("=")
	return p.node("TypeAlias", start, one("name", name), many("type_params", params), one("value", p.expression()))
}

func (p *parser) typeParameters() []*Node {
	if !p.take("[") {
		return nil
	}
	var out []*Node
	for !p.at("]") {
		start := p.peek().start
		kind := "TypeVar"
		if p.take("*") {
			kind = "TypeVarTuple"
		} else if p.take("**") {
			kind = "ParamSpec"
		}
		name := p.name()
		var bound, value *Node
		if p.take(":") {
			bound = p.expression()
		}
		if p.take("=") {
			value = p.starExpression()
		}
		out = append(out, p.node(kind, start, one("bound", bound), one("default_value", value)).named(name))
		if !p.take(",") {
			break
		}
	}
	p.expect("]")
	return out
}

var augmented = map[string]string{"+=": "Add", "-=": "Sub", "*=": "Mult", "/=": "Div", "//=": "FloorDiv", "%=": "Mod",
	"@=": "MatMult", "&=": "BitAnd", "|=": "BitOr", "^=": "BitXor", "<<=": "LShift", ">>=": "RShift", "**=": "Pow"}

func (p *parser) valueOrYield() *Node {
	if p.at("yield") {
		return p.yield()
	}
	return p.starExpressions()
}

func (p *parser) assignment() *Node {
	start := p.peek().start
	bracketed := p.at("(")
	x := p.valueOrYield()
	if p.at(":") && (x.Is("Name", "Attribute", "Subscript")) {
		p.next()
		of := p.expression()
		var v *Node
		if p.take("=") {
			v = p.valueOrYield()
		}
		simple := 0
		if x.Kind == "Name" && !bracketed {
			simple = 1
		}
		return p.node("AnnAssign", start, one("target", x), one("annotation", of), one("value", v)).counted(simple)
	}
	if t := p.peek(); t.kind == operatorToken {
		if op, ok := augmented[p.text(t)]; ok {
			if !x.Is("Name", "Attribute", "Subscript") {
				p.fail("changes what is no name, attribute or entry")
			}
			p.next()
			return p.node("AugAssign", start, one("target", x), one("value", p.valueOrYield())).named(op)
		}
	}
	if !p.at("=") {
		return p.node("Expr", start, one("value", x))
	}
	var targets []*Node
	for p.take("=") {
		p.target(x, false)
		targets = append(targets, x)
		x = p.valueOrYield()
	}
	return p.node("Assign", start, many("targets", targets), one("value", x))
}

// target refuses what cannot be assigned to.
func (p *parser) target(x *Node, deleted bool) {
	switch {
	case x.Is("Name", "Attribute", "Subscript"):
	case x.Is("Tuple", "List"):
		for _, e := range x.List("elts") {
			p.target(e, deleted)
		}
	case x.Kind == "Starred" && !deleted:
		p.target(x.Part("value"), false)
	default:
		p.fail("assigns to what cannot be assigned to")
	}
}

func (p *parser) ifStatement() *Node {
	start := p.next().start
	test := p.namedExpression()
	body := p.block()
	var or []*Node
	if p.at("elif") {
		p.down()
		or = []*Node{p.ifStatement()}
		p.up()
	} else {
		or = p.orElse()
	}
	return p.node("If", start, one("test", test), many("body", body), many("orelse", or))
}

func (p *parser) orElse() []*Node {
	if p.take("else") {
		return p.block()
	}
	return nil
}

func (p *parser) forStatement(kind string, start int) *Node {
	p.expect("for")
	target := p.targets()
	p.expect("in")
	over := p.starExpressions()
	body := p.block()
	return p.node(kind, start, one("target", target), one("iter", over), many("body", body), many("orelse", p.orElse()))
}

// targets are what stands between for and in.
func (p *parser) targets() *Node {
	start := p.peek().start
	element := func() *Node {
		at := p.peek().start
		if p.take("*") {
			return p.node("Starred", at, one("value", p.primary()))
		}
		return p.primary()
	}
	x := element()
	if p.at(",") {
		elements := []*Node{x}
		for p.take(",") {
			if p.at("in") {
				break
			}
			elements = append(elements, element())
		}
		x = p.node("Tuple", start, many("elts", elements))
	}
	p.target(x, false)
	return x
}

func (p *parser) tryStatement() *Node {
	start := p.next().start
	body := p.block()
	kind := "Try"
	var handlers, final []*Node
	for p.at("except") {
		at := p.next().start
		if p.take("*") {
			kind = "TryStar"
		}
		var of *Node
		name := ""
		if !p.at(":") {
			of = p.starExpressions() // without brackets since 3.14
			if p.take("as") {
				name = p.name()
			}
		}
		block := p.block()
		handlers = append(handlers, p.node("ExceptHandler", at, one("type", of), many("body", block)).named(name))
	}
	or := p.orElse()
	if p.take("finally") {
		final = p.block()
	}
	if handlers == nil && final == nil {
		p.fail("ends a try without except or finally")
	}
	return p.node(kind, start, many("body", body), many("handlers", handlers), many("orelse", or), many("finalbody", final))
}

func (p *parser) withStatement(kind string, start int) *Node {
	p.expect("with")
	item := func() *Node {
		at := p.peek().start
		x := p.expression()
		var as *Node
		if p.take("as") {
			if p.at("*") {
				p.unexpected()
			}
			as = p.primary()
			p.target(as, false)
		}
		return p.node("withitem", at, one("context_expr", x), one("optional_vars", as))
	}
	var items []*Node
	from := p.i
	bracketed := p.at("(") && p.try(func() {
		p.next()
		for !p.at(")") {
			items = append(items, item())
			if !p.take(",") {
				break
			}
		}
		p.expect(")")
		if !p.at(":") || len(items) == 0 {
			p.unexpected()
		}
	}) == nil
	if !bracketed {
		p.i = from
		items = []*Node{item()}
		for p.take(",") {
			items = append(items, item())
		}
	}
	body := p.block()
	return p.node(kind, start, many("items", items), many("body", body))
}

func (p *parser) asynchronous(decorators []*Node) *Node {
	start := p.next().start
	switch {
	case p.at("def"):
		return p.function("AsyncFunctionDef", start, decorators)
	case p.at("for") && decorators == nil:
		return p.forStatement("AsyncFor", start)
	case p.at("with") && decorators == nil:
		return p.withStatement("AsyncWith", start)
	}
	p.unexpected()
	return nil
}

func (p *parser) decorated() *Node {
	var decorators []*Node
	for p.take("@") {
		decorators = append(decorators, p.namedExpression())
		if p.peek().kind != newlineToken {
			p.unexpected()
		}
		p.next()
	}
	switch {
	case p.at("def"):
		return p.function("FunctionDef", p.peek().start, decorators)
	case p.at("class"):
		return p.class(decorators)
	case p.at("async"):
		return p.asynchronous(decorators)
	}
	p.unexpected()
	return nil
}

func (p *parser) function(kind string, start int, decorators []*Node) *Node {
	p.expect("def")
	name := p.name()
	params := p.typeParameters()
	p.expect("(")
	arguments := p.parameters(")", true)
	p.expect(")")
	var returns *Node
	if p.take("->") {
		returns = p.expression()
	}
	body := p.block()
	return p.node(kind, start, one("args", arguments), many("body", body), many("decorator_list", decorators),
		one("returns", returns), many("type_params", params)).named(name)
}

func (p *parser) class(decorators []*Node) *Node {
	start := p.next().start
	name := p.name()
	params := p.typeParameters()
	var bases, words []*Node
	if p.take("(") {
		bases, words = p.arguments()
		p.expect(")")
	}
	body := p.block()
	return p.node("ClassDef", start, many("bases", bases), many("keywords", words), many("body", body),
		many("decorator_list", decorators), many("type_params", params)).named(name)
}

// parameters are those of a function (annotated) or of a lambda, up to a closing sign.
func (p *parser) parameters(end string, annotated bool) *Node {
	start := p.peek().start
	var only, plain, named, namedDefaults, defaults []*Node
	var rest, words *Node
	parameter := func(star bool) *Node {
		at := p.peek().start
		name := p.name()
		var of *Node
		if annotated && p.take(":") {
			if star && p.at("*") {
				of = p.starExpression()
			} else {
				of = p.expression()
			}
		}
		return p.node("arg", at, one("annotation", of)).named(name)
	}
	starred := false
	for !p.at(end) {
		switch {
		case p.take("**"):
			words = parameter(false)
		case p.at("/") && only == nil && !starred && plain != nil:
			p.next()
			only, plain = plain, nil
		case p.take("*"):
			if starred {
				p.fail("has two stars among its parameters")
			}
			starred = true
			if !p.at(",") {
				rest = parameter(true)
			}
		default:
			if words != nil {
				p.unexpected()
			}
			a := parameter(false)
			var v *Node
			if p.take("=") {
				v = p.expression()
			}
			if starred {
				named, namedDefaults = append(named, a), append(namedDefaults, v)
				break
			}
			if plain = append(plain, a); v != nil {
				defaults = append(defaults, v)
			} else if defaults != nil {
				p.fail("has a parameter without a default behind one with a default")
			}
		}
		if !p.take(",") {
			break
		}
	}
	return p.node("arguments", start, many("posonlyargs", only), many("args", plain), one("vararg", rest),
		many("kwonlyargs", named), many("kw_defaults", namedDefaults), one("kwarg", words), many("defaults", defaults))
}
