package shell

import (
	"regexp"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// both is what && and || make of two answers.
func both(a, b result, or bool) result {
	if or {
		n := both(negate(a), negate(b), false)
		return negate(n)
	}
	switch {
	case a.known == Sure && !a.value || b.known == Sure && !b.value:
		return isFalse
	case a.known == Unknown || b.known == Unknown:
		return open
	default:
		return result{known: min(a.known, b.known), value: a.value && b.value}
	}
}

func negate(a result) result { return result{known: a.known, value: !a.value} }

// testClause answers [[ … ]].
func (r *reader) testClause(st *state, x syntax.TestExpr) result {
	if !r.step() {
		return open
	}
	switch x := x.(type) {
	case *syntax.Word:
		return notEmpty(r.word(st, x))
	case *syntax.ParenTest:
		return r.testClause(st, x.X)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsNot {
			return negate(r.testClause(st, x.X))
		}
		if w, ok := x.X.(*syntax.Word); ok {
			return r.unaryTest(st, x.Op.String(), r.word(st, w))
		}
	case *syntax.BinaryTest:
		if x.Op == syntax.AndTest || x.Op == syntax.OrTest {
			a := r.testClause(st, x.X)
			return both(a, r.testClause(st, x.Y), x.Op == syntax.OrTest)
		}
		a, okA := x.X.(*syntax.Word)
		b, okB := x.Y.(*syntax.Word)
		if !okA || !okB {
			return open
		}
		left := r.word(st, a)
		switch x.Op {
		case syntax.TsMatch, syntax.TsMatchShort:
			return r.matches(st, left, []*syntax.Word{b})
		case syntax.TsNoMatch:
			return negate(r.matches(st, left, []*syntax.Word{b}))
		}
		return compare(x.Op.String(), left, r.word(st, b))
	}
	return open
}

func notEmpty(w Word) result { return result{known: w.Certainty, value: w.Text != ""} }

// unaryTest answers -z and -n, and -v where it can be told. What it asks of files is not known.
func (r *reader) unaryTest(st *state, op string, w Word) result {
	switch op {
	case "-n":
		return notEmpty(w)
	case "-z":
		return negate(notEmpty(w))
	case "-v":
		if v, ok := st.vars[w.Text]; ok && w.Certainty == Sure && !v.unknown && v.value.Certainty == Sure && !v.isList {
			return result{known: Sure, value: !v.unset}
		}
	}
	return open
}

func compare(op string, a, b Word) result {
	known := min(a.Certainty, b.Certainty)
	if known == Unknown {
		return open
	}
	switch op {
	case "=", "==":
		return result{known: known, value: a.Text == b.Text}
	case "!=":
		return result{known: known, value: a.Text != b.Text}
	}
	x, errX := strconv.Atoi(a.Text)
	y, errY := strconv.Atoi(b.Text)
	if errX != nil || errY != nil || strconv.Itoa(x) != a.Text || strconv.Itoa(y) != b.Text {
		return open
	}
	switch op {
	case "-eq":
		return result{known: known, value: x == y}
	case "-ne":
		return result{known: known, value: x != y}
	case "-lt":
		return result{known: known, value: x < y}
	case "-le":
		return result{known: known, value: x <= y}
	case "-gt":
		return result{known: known, value: x > y}
	case "-ge":
		return result{known: known, value: x >= y}
	}
	return open
}

// test answers [ … ] and test, of which the words are expanded already.
func (r *reader) test(st *state, words []Word) result {
	for _, w := range words {
		if w.Many {
			return open
		}
	}
	is := func(i int, text string) bool { return words[i].Certainty == Sure && words[i].Text == text }
	switch len(words) {
	case 0:
		return isFalse
	case 1:
		return notEmpty(words[0])
	case 2:
		if is(0, "!") {
			return negate(notEmpty(words[1]))
		}
		if words[0].Certainty != Sure {
			return open
		}
		return r.unaryTest(st, words[0].Text, words[1])
	case 3:
		if is(0, "!") {
			return negate(r.test(st, words[1:]))
		}
		if words[1].Certainty != Sure {
			return open
		}
		return compare(words[1].Text, words[0], words[2])
	case 4:
		if is(0, "!") {
			return negate(r.test(st, words[1:]))
		}
	}
	for i := 1; i < len(words)-1; i++ {
		if is(i, "-a") || is(i, "-o") {
			return both(r.test(st, words[:i]), r.test(st, words[i+1:]), is(i, "-o"))
		}
	}
	return open
}

// matches says whether a word matches one of several patterns, as in case and [[ x == y ]].
func (r *reader) matches(st *state, w Word, patterns []*syntax.Word) result {
	got := isFalse
	for _, p := range patterns {
		text, known := r.pattern(st, p)
		one := open
		switch {
		case known == Sure && text == "*":
			one = isTrue
		case known > Unknown && w.Certainty > Unknown:
			if expression, err := pattern.Regexp(text, pattern.EntireString); err == nil {
				if matcher, err := regexp.Compile(expression); err == nil {
					one = result{known: min(known, w.Certainty), value: matcher.MatchString(w.Text)}
				}
			}
		}
		got = both(got, one, true)
	}
	return got
}

// pattern is the pattern that a word is, in which what is quoted stands for itself.
func (r *reader) pattern(st *state, w *syntax.Word) (string, Certainty) {
	var b strings.Builder
	known := Sure
	for _, p := range w.Parts {
		part := &syntax.Word{Parts: []syntax.WordPart{p}}
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(p.Value)
		case *syntax.SglQuoted, *syntax.DblQuoted:
			text := r.word(st, part)
			known = min(known, text.Certainty)
			b.WriteString(pattern.QuoteMeta(text.Text, 0))
		case *syntax.ParamExp, *syntax.ArithmExp:
			text := r.word(st, part)
			known = min(known, text.Certainty)
			b.WriteString(text.Text)
		default:
			known = Unknown
		}
	}
	return b.String(), known
}
