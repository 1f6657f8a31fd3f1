package shell

import (
	"fmt"
	"strconv"

	"mvdan.cc/sh/v3/syntax"
)

// maxInteger bounds what arithmetic is followed for: further out people mean something else.
const maxInteger = 1 << 53

// arithmetic works out ((…)) and let, with their assignments.
func (r *reader) arithmetic(st *state, x syntax.ArithmExpr) result {
	n, known := r.eval(st, x)
	if known == Unknown {
		return open
	}
	return result{known: known, value: n != 0}
}

// arithmeticPiece is $((…)).
func (r *reader) arithmeticPiece(st *state, p *syntax.ArithmExp) Piece {
	if n, known := r.eval(st, p.X); known > Unknown && !p.Unsigned {
		piece := Piece{Text: strconv.Itoa(n), Certainty: known}
		if known == Assumed {
			piece.Reason = fmt.Sprintf("the sum in line %d has a value from the environment or the "+
				"arguments", r.line(p))
		}
		return piece
	}
	return Piece{Reason: fmt.Sprintf("the sum in line %d has a value that is known only when the script "+
		"runs", r.line(p))}
}

// exprOperators are those of expr (POSIX, expr) on whole numbers; its division cuts towards zero, as arithmetic's does.
var exprOperators = map[string]syntax.BinAritOperator{"+": syntax.Add, "-": syntax.Sub, "*": syntax.Mul, "/": syntax.Quo,
	"%": syntax.Rem}

// expr is $(expr A op B), with which scripts that are meant for any shell reckon.
func (r *reader) expr(st *state, p *syntax.CmdSubst) (Piece, bool) {
	if len(p.Stmts) != 1 || len(p.Stmts[0].Redirs) > 0 || p.Stmts[0].Negated || p.Stmts[0].Background {
		return Piece{}, false
	}
	call, ok := p.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 || len(call.Args) != 4 || call.Args[0].Lit() != "expr" {
		return Piece{}, false
	}
	a, knownA := integerOf(r.word(st, call.Args[1]))
	sign := r.word(st, call.Args[2])
	b, knownB := integerOf(r.word(st, call.Args[3]))
	op, ok := exprOperators[sign.Text]
	n, computed := compute(op, a, b)
	known := min(knownA, knownB, sign.Certainty)
	if !ok || !computed || known == Unknown {
		return Piece{}, false
	}
	piece := Piece{Text: strconv.Itoa(n), Certainty: known}
	if known == Assumed {
		piece.Reason = fmt.Sprintf("the sum in line %d has a value from the environment or the arguments", r.line(p))
	}
	return piece, true
}

// integer is an expression whose value is surely known.
func (r *reader) integer(st *state, x syntax.ArithmExpr) (int, bool) {
	n, known := r.eval(st, x)
	return n, known == Sure
}

// eval works out one expression.
func (r *reader) eval(st *state, x syntax.ArithmExpr) (int, Certainty) {
	if !r.step() {
		return 0, Unknown
	}
	switch x := x.(type) {
	case *syntax.Word:
		w := r.word(st, x)
		if name := x.Lit(); syntax.ValidName(name) {
			return st.number(name)
		}
		return integerOf(w)
	case *syntax.ParenArithm:
		return r.eval(st, x.X)
	case *syntax.UnaryArithm:
		return r.unary(st, x)
	case *syntax.BinaryArithm:
		return r.binaryArithmetic(st, x)
	}
	return 0, Unknown
}

// number is the value of a name in arithmetic: that of one that is not set is 0.
func (st *state) number(name string) (int, Certainty) {
	switch v := st.lookup(name); {
	case v.unset:
		return 0, Sure
	case v.isList || v.odd || v.unknown:
		return 0, Unknown
	case v.value.Text == "":
		return 0, v.value.Certainty
	default:
		return integerOf(v.value)
	}
}

// integerOf reads a plain decimal number. Others, such as 010, mean different things to different shells.
func integerOf(w Word) (int, Certainty) {
	n, err := strconv.Atoi(w.Text)
	if err != nil || strconv.Itoa(n) != w.Text || n > maxInteger || n < -maxInteger {
		return 0, Unknown
	}
	return n, w.Certainty
}

func (r *reader) unary(st *state, x *syntax.UnaryArithm) (int, Certainty) {
	n, known := r.eval(st, x.X)
	switch x.Op {
	case syntax.Plus:
		return n, known
	case syntax.Minus:
		return -n, known
	case syntax.Not:
		return truth(n == 0), known
	case syntax.Inc, syntax.Dec:
		next := n + 1
		if x.Op == syntax.Dec {
			next = n - 1
		}
		r.assignNumber(st, x.X, next, known)
		if !x.Post {
			n = next
		}
		return n, known
	}
	return 0, Unknown
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// assignNumber sets a name to a number.
func (r *reader) assignNumber(st *state, to syntax.ArithmExpr, n int, known Certainty) {
	w, ok := to.(*syntax.Word)
	if !ok {
		st.forgetAll(fmt.Sprintf("set by arithmetic in line %d", r.line(to)))
		return
	}
	name := w.Lit()
	if !syntax.ValidName(name) {
		if len(w.Parts) == 1 {
			if p, ok := w.Parts[0].(*syntax.ParamExp); ok && p.Param != nil { // a[i]
				name = p.Param.Value
			}
		}
		known = Unknown
	}
	reason := fmt.Sprintf("$%s is set by arithmetic in line %d", name, r.line(to))
	v := variable{exported: st.vars[name].exported || st.exportAll, odd: st.vars[name].odd}
	if v.value = wordOf([]Piece{{Text: strconv.Itoa(n), Certainty: known, Reason: reason}}); known == Unknown {
		v.value = unknownWord(reason)
	}
	st.vars[name] = v
}

// assignments are the operators that set a name, with what they work out.
var assignments = map[syntax.BinAritOperator]syntax.BinAritOperator{
	syntax.AddAssgn: syntax.Add, syntax.SubAssgn: syntax.Sub, syntax.MulAssgn: syntax.Mul, syntax.QuoAssgn: syntax.Quo,
	syntax.RemAssgn: syntax.Rem,
	syntax.AndAssgn: syntax.And, syntax.OrAssgn: syntax.Or, syntax.XorAssgn: syntax.Xor, syntax.ShlAssgn: syntax.Shl,
	syntax.ShrAssgn: syntax.Shr,
	syntax.PowAssgn: syntax.Pow,
}

func (r *reader) binaryArithmetic(st *state, x *syntax.BinaryArithm) (int, Certainty) {
	switch x.Op {
	case syntax.Assgn:
		n, known := r.eval(st, x.Y)
		r.assignNumber(st, x.X, n, known)
		return n, known
	case syntax.AndArit, syntax.OrArit, syntax.TernQuest:
		return r.choice(st, x)
	}
	a, knownA := r.eval(st, x.X)
	b, knownB := r.eval(st, x.Y)
	known := min(knownA, knownB)
	op, assigns := assignments[x.Op]
	if !assigns {
		op = x.Op
	}
	n, ok := compute(op, a, b)
	if !ok || known == Unknown {
		n, known = 0, Unknown
	}
	if assigns {
		r.assignNumber(st, x.X, n, known)
	}
	return n, known
}

// choice is && || and ?:, of which only a part is worked out.
func (r *reader) choice(st *state, x *syntax.BinaryArithm) (int, Certainty) {
	a, known := r.eval(st, x.X)
	if known != Sure {
		r.forgetAssigned(st, x.Y, "set by arithmetic that depends on something else")
		return 0, Unknown
	}
	y := x.Y
	switch x.Op {
	case syntax.AndArit:
		if a == 0 {
			return 0, Sure
		}
	case syntax.OrArit:
		if a != 0 {
			return 1, Sure
		}
	default:
		branches, ok := x.Y.(*syntax.BinaryArithm)
		if !ok || branches.Op != syntax.TernColon {
			return 0, Unknown
		}
		if a != 0 {
			return r.eval(st, branches.X)
		}
		return r.eval(st, branches.Y)
	}
	b, known := r.eval(st, y)
	return truth(b != 0), known
}

func compute(op syntax.BinAritOperator, a, b int) (n int, ok bool) {
	switch op {
	case syntax.Add:
		n = a + b
	case syntax.Sub:
		n = a - b
	case syntax.Mul:
		if n = a * b; a != 0 && (n/a != b || float64(a)*float64(b) > maxInteger) {
			return 0, false
		}
	case syntax.Quo, syntax.Rem:
		if b == 0 {
			return 0, false
		}
		if n = a / b; op == syntax.Rem {
			n = a % b
		}
	case syntax.Pow:
		n = 1
		if b < 0 || b > 64 {
			return 0, false
		}
		for range b {
			if n *= a; n > maxInteger || n < -maxInteger {
				return 0, false
			}
		}
	case syntax.Eql:
		n = truth(a == b)
	case syntax.Neq:
		n = truth(a != b)
	case syntax.Gtr:
		n = truth(a > b)
	case syntax.Lss:
		n = truth(a < b)
	case syntax.Geq:
		n = truth(a >= b)
	case syntax.Leq:
		n = truth(a <= b)
	case syntax.Comma:
		n = b
	case syntax.Shl, syntax.Shr:
		if b < 0 || b > 32 || a < 0 {
			return 0, false
		}
		if n = a >> b; op == syntax.Shl {
			n = a << b
		}
	case syntax.And:
		n = a & b
	case syntax.Or:
		n = a | b
	case syntax.Xor:
		n = a ^ b
	default:
		return 0, false
	}
	return n, n <= maxInteger && n >= -maxInteger
}

// arithmeticNames are the names that a node of arithmetic assigns.
func arithmeticNames(n syntax.Node) []string {
	var to syntax.ArithmExpr
	switch n := n.(type) {
	case *syntax.UnaryArithm:
		if n.Op == syntax.Inc || n.Op == syntax.Dec {
			to = n.X
		}
	case *syntax.BinaryArithm:
		if _, assigns := assignments[n.Op]; assigns || n.Op == syntax.Assgn {
			to = n.X
		}
	}
	w, ok := to.(*syntax.Word)
	if !ok {
		return nil
	}
	if name := w.Lit(); name != "" {
		return []string{name}
	}
	if p, ok := w.Parts[0].(*syntax.ParamExp); ok && p.Param != nil {
		return []string{p.Param.Value}
	}
	return nil
}
