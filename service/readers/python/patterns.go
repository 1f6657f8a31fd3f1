package python

// matchStatement reads a match; nil where the word is a name.
func (p *parser) matchStatement() *Node {
	from, start := p.i, p.peek().start
	var subject *Node
	if p.try(func() {
		p.next()
		subject = p.starExpressions()
		p.expect(":")
		if p.peek().kind != newlineToken || p.ahead(1).kind != indentToken {
			p.unexpected()
		}
		p.next()
		p.next()
		if !p.soft("case") {
			p.unexpected()
		}
	}) != nil {
		p.i = from
		return nil
	}
	p.down()
	defer p.up()
	var cases []*Node
	for p.soft("case") {
		at := p.next().start
		pattern := p.openPattern()
		var guard *Node
		if p.take("if") {
			guard = p.namedExpression()
		}
		body := p.block()
		cases = append(cases, p.node("match_case", at, one("pattern", pattern), one("guard", guard), many("body", body)))
	}
	if p.peek().kind != dedentToken {
		p.unexpected()
	}
	p.next()
	return p.node("Match", start, one("subject", subject), many("cases", cases))
}

// openPattern is one that may be a sequence without brackets.
func (p *parser) openPattern() *Node {
	start := p.peek().start
	x := p.starPattern()
	if !p.at(",") {
		if x.Kind == "MatchStar" {
			p.unexpected()
		}
		return x
	}
	list := []*Node{x}
	for p.take(",") {
		if p.at(":") || p.at("if") {
			break
		}
		list = append(list, p.starPattern())
	}
	return p.node("MatchSequence", start, many("patterns", list))
}

func (p *parser) starPattern() *Node {
	start := p.peek().start
	if !p.take("*") {
		return p.pattern()
	}
	name := p.name()
	if name == "_" {
		name = ""
	}
	return p.node("MatchStar", start).named(name)
}

func (p *parser) pattern() *Node {
	p.down()
	defer p.up()
	start := p.peek().start
	x := p.closedPattern()
	if p.at("|") {
		list := []*Node{x}
		for p.take("|") {
			list = append(list, p.closedPattern())
		}
		x = p.node("MatchOr", start, many("patterns", list))
	}
	if p.take("as") {
		name := p.name()
		return p.node("MatchAs", start, one("pattern", x)).named(name)
	}
	return x
}

func (p *parser) closedPattern() *Node {
	t := p.peek()
	switch {
	case p.take("("):
		return p.patternsUntil(")", t.start)
	case p.take("["):
		return p.patternsUntil("]", t.start)
	case p.take("{"):
		return p.mapping(t.start)
	case p.at("None") || p.at("True") || p.at("False"):
		v := p.atom()
		n := p.node("MatchSingleton", t.start)
		n.Value = v.Value
		return n
	case t.kind == nameToken && !p.is(p.ahead(1), ".") && !p.is(p.ahead(1), "("):
		p.next()
		name := p.text(t)
		if name == "_" {
			name = ""
		}
		return p.node("MatchAs", t.start).named(name)
	case t.kind == nameToken:
		x := p.atom()
		for p.take(".") {
			x = p.node("Attribute", t.start, one("value", x)).named(p.name())
			x.End = p.tokens[p.i-1].end
		}
		if p.take("(") {
			return p.classPattern(x, t.start)
		}
		return p.node("MatchValue", t.start, one("value", x))
	case t.kind == numberToken || t.kind == stringToken || p.at("-"):
		return p.node("MatchValue", t.start, one("value", p.binary(sum)))
	}
	p.unexpected()
	return nil
}

// sum is the level of + and -, with which a pattern writes complex numbers.
const sum = 4

func (p *parser) patternsUntil(closing string, start int) *Node {
	var list []*Node
	comma := false
	for !p.at(closing) {
		list = append(list, p.starPattern())
		if comma = p.take(","); !comma {
			break
		}
	}
	p.expect(closing)
	if closing == ")" && len(list) == 1 && !comma {
		if list[0].Kind == "MatchStar" {
			p.unexpected()
		}
		return list[0]
	}
	return p.node("MatchSequence", start, many("patterns", list))
}

func (p *parser) mapping(start int) *Node {
	var keys, values []*Node
	rest := ""
	for !p.at("}") {
		if p.take("**") {
			rest = p.name()
		} else {
			k := p.binary(sum)
			p.expect(":")
			keys, values = append(keys, k), append(values, p.pattern())
		}
		if !p.take(",") {
			break
		}
	}
	p.expect("}")
	return p.node("MatchMapping", start, many("keys", keys), many("patterns", values)).named(rest)
}

func (p *parser) classPattern(of *Node, start int) *Node {
	var values, named []*Node
	var names []string
	for !p.at(")") {
		if t := p.peek(); t.kind == nameToken && p.is(p.ahead(1), "=") {
			p.next()
			p.next()
			names, named = append(names, p.text(t)), append(named, p.pattern())
		} else {
			values = append(values, p.pattern())
		}
		if !p.take(",") {
			break
		}
	}
	p.expect(")")
	return p.node("MatchClass", start, one("cls", of), many("patterns", values), many("kwd_patterns", named)).with(names...)
}
