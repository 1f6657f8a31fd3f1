package python

// starExpressions are an expression, or several with commas, which are a tuple.
func (p *parser) starExpressions() *Node {
	return p.tuple(p.starExpression, func() bool {
		t := p.peek()
		switch t.kind {
		case newlineToken, endToken:
			return true
		case operatorToken:
			switch p.text(t) {
			case ")", "]", "}", "=", ":", ";", "!":
				return true
			}
		}
		_, changes := augmented[p.text(t)]
		return changes
	})
}

func (p *parser) tuple(element func() *Node, over func() bool) *Node {
	start := p.peek().start
	x := element()
	if !p.at(",") {
		return x
	}
	elements := []*Node{x}
	for p.take(",") {
		if over() {
			break
		}
		elements = append(elements, element())
	}
	return p.node("Tuple", start, many("elts", elements))
}

func (p *parser) starExpression() *Node {
	start := p.peek().start
	if p.take("*") {
		return p.node("Starred", start, one("value", p.binary(bitOr)))
	}
	return p.namedExpression()
}

func (p *parser) namedExpression() *Node {
	t := p.peek()
	if t.kind == nameToken && p.is(p.ahead(1), ":=") {
		p.next()
		name := p.node("Name", t.start).named(p.text(t))
		p.next()
		return p.node("NamedExpr", t.start, one("target", name), one("value", p.expression()))
	}
	return p.expression()
}

func (p *parser) expression() *Node {
	p.down()
	defer p.up()
	start := p.peek().start
	if p.take("lambda") {
		arguments := p.parameters(":", false)
		p.expect(":")
		return p.node("Lambda", start, one("args", arguments), one("body", p.expression()))
	}
	x := p.or()
	if !p.take("if") {
		return x
	}
	test := p.or()
	p.expect("else")
	return p.node("IfExp", start, one("test", test), one("body", x), one("orelse", p.expression()))
}

func (p *parser) yield() *Node {
	start := p.peek().start
	p.expect("yield")
	if p.take("from") {
		return p.node("YieldFrom", start, one("value", p.expression()))
	}
	var v *Node
	if !p.lineOver() && !p.at(")") && !p.at("=") && !p.at("}") && p.peek().kind != endToken {
		v = p.starExpressions()
	}
	return p.node("Yield", start, one("value", v))
}

func (p *parser) or() *Node {
	return p.logical("or", "Or", func() *Node { return p.logical("and", "And", p.not) })
}

func (p *parser) logical(word, op string, element func() *Node) *Node {
	start := p.peek().start
	x := element()
	if !p.at(word) {
		return x
	}
	values := []*Node{x}
	for p.take(word) {
		values = append(values, element())
	}
	return p.node("BoolOp", start, many("values", values)).named(op)
}

func (p *parser) not() *Node {
	start := p.peek().start
	if p.take("not") {
		p.down()
		defer p.up()
		return p.node("UnaryOp", start, one("operand", p.not())).named("Not")
	}
	return p.comparison()
}

var compared = map[string]string{"==": "Eq", "!=": "NotEq", "<": "Lt", "<=": "LtE", ">": "Gt", ">=": "GtE", "in": "In"}

func (p *parser) comparison() *Node {
	start := p.peek().start
	x := p.binary(bitOr)
	var ops []string
	var others []*Node
	for {
		op, ok := "", false
		if t := p.peek(); t.kind == operatorToken || t.kind == keywordToken {
			op, ok = compared[p.text(t)]
		}
		switch {
		case ok:
			p.next()
		case p.at("not") && p.is(p.ahead(1), "in"):
			p.next()
			p.next()
			op = "NotIn"
		case p.take("is"):
			if op = "Is"; p.take("not") {
				op = "IsNot"
			}
		default:
			if ops == nil {
				return x
			}
			return p.node("Compare", start, one("left", x), many("comparators", others)).with(ops...)
		}
		ops, others = append(ops, op), append(others, p.binary(bitOr))
	}
}

// The levels of the operators between two values, the loosest first.
const bitOr = 0

var levels = []map[string]string{{"|": "BitOr"}, {"^": "BitXor"}, {"&": "BitAnd"}, {"<<": "LShift", ">>": "RShift"},
	{"+": "Add", "-": "Sub"}, {"*": "Mult", "/": "Div", "//": "FloorDiv", "%": "Mod", "@": "MatMult"}}

func (p *parser) binary(level int) *Node {
	if level == len(levels) {
		return p.unary()
	}
	start := p.peek().start
	x := p.binary(level + 1)
	for p.peek().kind == operatorToken {
		op, ok := levels[level][p.text(p.peek())]
		if !ok {
			break
		}
		p.next()
		y := p.binary(level + 1)
		x = p.node("BinOp", start, one("left", x), one("right", y)).named(op)
	}
	return x
}

func (p *parser) unary() *Node {
	start := p.peek().start
	op := ""
	switch {
	case p.take("-"):
		op = "USub"
	case p.take("+"):
		op = "UAdd"
	case p.take("~"):
		op = "Invert"
	}
	if op != "" {
		p.down()
		defer p.up()
		return p.node("UnaryOp", start, one("operand", p.unary())).named(op)
	}
	x := p.awaited()
	if p.take("**") {
		p.down()
		defer p.up()
		return p.node("BinOp", start, one("left", x), one("right", p.unary())).named("Pow")
	}
	return x
}

func (p *parser) awaited() *Node {
	start := p.peek().start
	if p.take("await") {
		return p.node("Await", start, one("value", p.primary()))
	}
	return p.primary()
}

func (p *parser) primary() *Node {
	p.down()
	defer p.up()
	start := p.peek().start
	x := p.atom()
	for {
		switch {
		case p.take("."):
			x = p.node("Attribute", start, one("value", x)).named(p.name())
			x.End = p.tokens[p.i-1].end
		case p.take("("):
			values, words := p.arguments()
			p.expect(")")
			x = p.node("Call", start, one("func", x), many("args", values), many("keywords", words))
		case p.take("["):
			index := p.tuple(p.slice, func() bool { return p.at("]") })
			p.expect("]")
			x = p.node("Subscript", start, one("value", x), one("slice", index))
		default:
			return x
		}
	}
}

func (p *parser) slice() *Node {
	start := p.peek().start
	var low, high, step *Node
	if !p.at(":") {
		if low = p.starExpression(); !p.at(":") {
			return low
		}
	}
	p.expect(":")
	if !p.at(":") && !p.at("]") && !p.at(",") {
		high = p.expression()
	}
	if p.take(":") && !p.at("]") && !p.at(",") {
		step = p.expression()
	}
	return p.node("Slice", start, one("lower", low), one("upper", high), one("step", step))
}

// arguments are those of a call, up to its closing bracket.
func (p *parser) arguments() (values, words []*Node) {
	for !p.at(")") {
		t := p.peek()
		switch {
		case p.take("**"):
			words = append(words, p.node("keyword", t.start, one("value", p.expression())))
			words[len(words)-1].End = p.tokens[p.i-1].end
		case p.take("*"):
			values = append(values, p.node("Starred", t.start, one("value", p.expression())))
			values[len(values)-1].End = p.tokens[p.i-1].end
		case t.kind == nameToken && p.is(p.ahead(1), "="):
			p.next()
			p.next()
			words = append(words, p.node("keyword", t.start, one("value", p.expression())).named(p.text(t)))
			words[len(words)-1].End = p.tokens[p.i-1].end
		default:
			x := p.namedExpression()
			if p.at("for") || p.at("async") {
				x = p.node("GeneratorExp", p.tokens[p.i-1].end, one("elt", x), many("generators", p.comprehensions()))
				x.Start = p.opened(t)
				x.Line = p.lines.of(x.Start)
				if p.at(")") {
					x.End = p.peek().end
				}
			}
			values = append(values, x)
		}
		if !p.take(",") {
			break
		}
	}
	return values, words
}

// opened is the bracket before a token.
func (p *parser) opened(t token) int {
	i := t.start - 1
	for i > 0 && p.src[i] != '(' {
		i--
	}
	return max(i, 0)
}

func (p *parser) comprehensions() []*Node {
	var out []*Node
	for p.at("for") || p.at("async") {
		start := p.peek().start
		asynchronous := 0
		if p.take("async") {
			asynchronous = 1
		}
		p.expect("for")
		target := p.targets()
		p.expect("in")
		over := p.or()
		var ifs []*Node
		for p.take("if") {
			ifs = append(ifs, p.condition())
		}
		out = append(out, p.node("comprehension", start, one("target", target), one("iter", over), many("ifs", ifs)).counted(asynchronous))
	}
	return out
}

// condition is one of a comprehension: without an if of its own, which would be the next condition.
func (p *parser) condition() *Node {
	t := p.peek()
	if t.kind == nameToken && p.is(p.ahead(1), ":=") {
		p.next()
		name := p.node("Name", t.start).named(p.text(t))
		p.next()
		return p.node("NamedExpr", t.start, one("target", name), one("value", p.or()))
	}
	return p.or()
}

func (p *parser) atom() *Node {
	t := p.peek()
	switch t.kind {
	case nameToken:
		p.next()
		return p.node("Name", t.start).named(p.text(t))
	case numberToken:
		p.next()
		n := p.node("Constant", t.start)
		var ok bool
		if n.Value, ok = number(p.text(t)); !ok {
			p.i--
			p.fail("has the number %q, which is none", shortened(p.text(t)))
		}
		return n
	case stringToken:
		return p.str()
	case keywordToken:
		constant := func(v any) *Node {
			p.next()
			n := p.node("Constant", t.start)
			n.Value = v
			return n
		}
		switch p.text(t) {
		case "True":
			return constant(true)
		case "False":
			return constant(false)
		case "None":
			return constant(nil)
		}
	case operatorToken:
		switch p.text(t) {
		case "...":
			p.next()
			n := p.node("Constant", t.start)
			n.Value = Ellipsis{}
			return n
		case "(":
			return p.bracketed()
		case "[":
			p.next()
			return p.listed(t.start)
		case "{":
			p.next()
			return p.braced(t.start)
		}
	}
	p.unexpected()
	return nil
}

func (p *parser) bracketed() *Node {
	start := p.next().start
	if p.take(")") {
		return p.node("Tuple", start)
	}
	if p.at("yield") {
		x := p.yield()
		p.expect(")")
		return x
	}
	x := p.starExpression()
	if p.at("for") || p.at("async") {
		generators := p.comprehensions()
		p.expect(")")
		return p.node("GeneratorExp", start, one("elt", x), many("generators", generators))
	}
	if !p.at(",") {
		if x.Kind == "Starred" {
			p.fail("has a star where nothing takes it apart")
		}
		p.expect(")")
		return x
	}
	elements := []*Node{x}
	for p.take(",") {
		if p.at(")") {
			break
		}
		elements = append(elements, p.starExpression())
	}
	p.expect(")")
	return p.node("Tuple", start, many("elts", elements))
}

func (p *parser) listed(start int) *Node {
	if p.take("]") {
		return p.node("List", start)
	}
	x := p.starExpression()
	if p.at("for") || p.at("async") {
		generators := p.comprehensions()
		p.expect("]")
		return p.node("ListComp", start, one("elt", x), many("generators", generators))
	}
	elements := []*Node{x}
	for p.take(",") {
		if p.at("]") {
			break
		}
		elements = append(elements, p.starExpression())
	}
	p.expect("]")
	return p.node("List", start, many("elts", elements))
}

func (p *parser) braced(start int) *Node {
	if p.take("}") {
		return p.node("Dict", start)
	}
	var keys, values []*Node
	if !p.at("**") {
		x := p.starExpression()
		if !p.at(":") {
			if p.at("for") || p.at("async") {
				generators := p.comprehensions()
				p.expect("}")
				return p.node("SetComp", start, one("elt", x), many("generators", generators))
			}
			elements := []*Node{x}
			for p.take(",") {
				if p.at("}") {
					break
				}
				elements = append(elements, p.starExpression())
			}
			p.expect("}")
			return p.node("Set", start, many("elts", elements))
		}
		p.next()
		v := p.expression()
		if p.at("for") || p.at("async") {
			generators := p.comprehensions()
			p.expect("}")
			return p.node("DictComp", start, one("key", x), one("value", v), many("generators", generators))
		}
		keys, values = append(keys, x), append(values, v)
		if !p.take(",") {
			p.expect("}")
			return p.node("Dict", start, many("keys", keys), many("values", values))
		}
	}
	for !p.at("}") {
		if p.take("**") {
			keys, values = append(keys, nil), append(values, p.binary(bitOr))
		} else {
			k := p.expression()
			p.expect(":")
			keys, values = append(keys, k), append(values, p.expression())
		}
		if !p.take(",") {
			break
		}
	}
	p.expect("}")
	return p.node("Dict", start, many("keys", keys), many("values", values))
}
