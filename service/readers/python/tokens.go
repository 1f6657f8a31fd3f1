package python

import (
	"bytes"
	"fmt"
)

type kind uint8

const (
	endToken kind = iota
	newlineToken
	indentToken
	dedentToken
	nameToken
	keywordToken
	numberToken
	stringToken
	operatorToken
	badToken // text that is no token; why says what is wrong with it
)

type token struct {
	kind       kind
	start, end int
	why        string
}

// maxResumed is how often reading begins anew behind a bracket or a string that is never closed: each may have been
// looked for to the end of the file. maxLookedFor is the most bytes that are looked at for that.
const (
	maxResumed   = 16
	maxLookedFor = 1 << 20
)

// maxIndents is CPython's (Parser/lexer/state.h, MAXINDENT).
const maxIndents = 100

// maxStrings is how deep f-strings may stand in one another (CPython's MAXFSTRINGLEVEL is 150). Each level is looked
// at once more.
const maxStrings = 12

var keywords = map[string]bool{"False": true, "None": true, "True": true, "and": true, "as": true, "assert": true,
	"async": true, "await": true, "break": true, "class": true, "continue": true, "def": true, "del": true,
	"elif": true, "else": true, "except": true, "finally": true, "for": true, "from": true, "global": true,
	"if": true, "import": true, "in": true, "is": true, "lambda": true, "nonlocal": true, "not": true, "or": true,
	"pass": true, "raise": true, "return": true, "try": true, "while": true, "with": true, "yield": true}

const neverClosed = "has a string that is never closed"

type lexer struct {
	src     []byte
	at, end int
	depth   int
	tokens  []token
	indents []int
	// resumed is how often reading began anew, and lookedFor over how many bytes.
	resumed, lookedFor int
	// began is where the logical line begins, in the text and in the tokens.
	began, beganToken int
	inside            bool // of brackets from the beginning on, as an f-string's expressions are
}

func (l *lexer) add(k kind, start, end int) {
	l.tokens = append(l.tokens, token{kind: k, start: start, end: end})
}

func (l *lexer) bad(start, end int, format string, a ...any) {
	l.tokens = append(l.tokens, token{kind: badToken, start: start, end: end, why: fmt.Sprintf(format, a...)})
}

// tokens are those of src[from:to]; inside is for an expression that stands within brackets.
func tokens(src []byte, from, to int, inside bool) []token {
	l := &lexer{src: src, at: from, end: to, inside: inside, indents: []int{0}, tokens: make([]token, 0, (to-from)/4+8)}
	if inside {
		l.depth = 1
	}
	newLine := !inside
	for {
		if newLine {
			l.indentation()
			l.began, l.beganToken = l.at, len(l.tokens)
		}
		newLine = l.line()
		if l.at >= l.end && !newLine {
			if l.depth > 0 && !inside {
				if l.resume("has a bracket that is never closed") {
					newLine = true
					continue
				}
			}
			break
		}
	}
	if !inside {
		if n := len(l.tokens); n > 0 && l.tokens[n-1].kind != newlineToken && l.tokens[n-1].kind != dedentToken {
			l.add(newlineToken, l.end, l.end)
		}
		for range len(l.indents) - 1 {
			l.add(dedentToken, l.end, l.end)
		}
	}
	l.add(endToken, l.end, l.end)
	return l.tokens
}

// resume gives up the line on which the logical line began, and goes on with the next one.
func (l *lexer) resume(why string) bool {
	l.resumed++
	l.lookedFor += l.at - l.began
	if l.resumed > maxResumed || l.lookedFor > maxLookedFor {
		l.tokens = l.tokens[:l.beganToken]
		l.bad(l.began, l.end, "%s", why)
		l.at, l.depth = l.end, 0
		return false
	}
	l.tokens = l.tokens[:l.beganToken]
	next := l.end
	if i := bytes.IndexAny(l.src[l.began:l.end], "\r\n"); i >= 0 {
		next = l.began + i
	}
	l.bad(l.began, next, "%s", why)
	l.add(newlineToken, next, next)
	l.at, l.depth = next, 0
	l.lineEnd()
	return true
}

func (l *lexer) lineEnd() bool {
	if l.at < l.end && l.src[l.at] == '\r' {
		l.at++
		if l.at < l.end && l.src[l.at] == '\n' {
			l.at++
		}
		return true
	}
	if l.at < l.end && l.src[l.at] == '\n' {
		l.at++
		return true
	}
	return false
}

func (l *lexer) comment() {
	for l.at < l.end && l.src[l.at] != '\n' && l.src[l.at] != '\r' {
		l.at++
	}
}

// indentation passes empty lines and says how far the next one is indented.
func (l *lexer) indentation() {
	for {
		column, start := 0, l.at
		for ; l.at < l.end; l.at++ {
			if c := l.src[l.at]; c == ' ' {
				column++
			} else if c == '\t' {
				column = column/8*8 + 8
			} else if c == '\f' {
				column = 0
			} else if c == '\\' && l.at+1 < l.end && (l.src[l.at+1] == '\n' || l.src[l.at+1] == '\r') {
				l.at++
				l.lineEnd()
				l.at--
			} else {
				break
			}
		}
		if l.at < l.end && l.src[l.at] == '#' {
			l.comment()
		}
		if l.lineEnd() {
			continue
		}
		if l.at >= l.end {
			return
		}
		top := l.indents[len(l.indents)-1]
		if column > top {
			if len(l.indents) > maxIndents {
				l.bad(start, l.at, "is indented more than %d times", maxIndents)
				return
			}
			l.indents = append(l.indents, column)
			l.add(indentToken, l.at, l.at)
		}
		for column < top {
			l.indents = l.indents[:len(l.indents)-1]
			top = l.indents[len(l.indents)-1]
			if column > top {
				l.indents = append(l.indents, column) // as nothing above it: a block that nothing asks for
				l.add(indentToken, l.at, l.at)
				return
			}
			l.add(dedentToken, l.at, l.at)
		}
		return
	}
}

func letter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// line reads to the end of the logical line, and reports whether another one begins.
func (l *lexer) line() bool {
	for l.at < l.end {
		c := l.src[l.at]
		switch {
		case c == ' ' || c == '\t' || c == '\f':
			l.at++
		case c == '#':
			l.comment()
		case c == '\n' || c == '\r':
			at := l.at
			l.lineEnd()
			if l.depth == 0 {
				l.add(newlineToken, at, at)
				return true
			}
		case c == '\\':
			at := l.at
			l.at++
			if !l.lineEnd() {
				l.bad(at, l.at, "has a backslash within")
			}
		case letter(c):
			if !l.word() {
				return l.resume(neverClosed)
			}
		case digit(c) || c == '.' && l.at+1 < l.end && digit(l.src[l.at+1]):
			l.number()
		case c == '"' || c == '\'':
			if !l.str(l.at) && !l.inside {
				return l.resume(neverClosed)
			}
		default:
			l.operator()
		}
	}
	return false
}

// word reads a name, a keyword, or a string with a prefix; false where the string is never closed.
func (l *lexer) word() bool {
	start := l.at
	for l.at < l.end && (letter(l.src[l.at]) || digit(l.src[l.at])) {
		l.at++
	}
	if l.at < l.end && (l.src[l.at] == '"' || l.src[l.at] == '\'') && prefix(l.src[start:l.at]) {
		return l.str(start) || l.inside
	}
	k := nameToken
	if l.at-start <= 8 && keywords[string(l.src[start:l.at])] {
		k = keywordToken
	}
	l.add(k, start, l.at)
	return true
}

func prefix(b []byte) bool {
	switch string(bytes.ToLower(b)) {
	case "r", "u", "b", "f", "rb", "br", "fr", "rf":
		return true
	}
	return false
}

func (l *lexer) number() {
	start := l.at
	s := l.src[:l.end]
	if s[l.at] == '0' && l.at+1 < l.end && bytes.IndexByte([]byte("xXoObB"), s[l.at+1]) >= 0 {
		hex := s[l.at+1]|0x20 == 'x'
		l.at += 2
		for l.at < l.end && (digit(s[l.at]) || s[l.at] == '_' || hex && s[l.at]|0x20 >= 'a' && s[l.at]|0x20 <= 'f') {
			l.at++
		}
		l.add(numberToken, start, l.at)
		return
	}
	digits := func() {
		for l.at < l.end && (digit(s[l.at]) || s[l.at] == '_' && l.at+1 < l.end && digit(s[l.at+1])) {
			l.at++
		}
	}
	digits()
	if l.at < l.end && s[l.at] == '.' {
		l.at++
		digits()
	}
	if l.at < l.end && s[l.at]|0x20 == 'e' {
		i := l.at + 1
		if i < l.end && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if i < l.end && digit(s[i]) {
			l.at = i
			digits()
		}
	}
	if l.at < l.end && s[l.at]|0x20 == 'j' {
		l.at++
	}
	l.add(numberToken, start, l.at)
}

// str reads a string that begins, with its prefix, at start; l.at is at the quote.
func (l *lexer) str(start int) bool {
	end, ok := stringEnd(l.src[:l.end], start, l.at, 0)
	if !ok {
		if l.inside {
			l.bad(start, l.end, "has a string that is never closed")
			l.at = l.end
		}
		return false
	}
	l.at = end
	l.add(stringToken, start, end)
	return true
}

// stringEnd is where a string ends whose prefix begins at start and whose quotes begin at quote.
func stringEnd(src []byte, start, quote, depth int) (end int, ok bool) {
	q, i := quotes(src, quote)
	f := bytes.ContainsAny(src[start:quote], "fF")
	raw := bytes.ContainsAny(src[start:quote], "rR")
	for i < len(src) {
		switch c := src[i]; {
		case c == '\\':
			if f && !raw && bytes.HasPrefix(src[i:], []byte(`\N{`)) {
				i += 3
				continue
			}
			if f && i+1 < len(src) && (src[i+1] == '{' || src[i+1] == '}') {
				i++
				continue
			}
			i += 2
			if i-1 < len(src) && src[i-1] == '\r' && i < len(src) && src[i] == '\n' {
				i++
			}
		case bytes.HasPrefix(src[i:], q):
			return i + len(q), true
		case (c == '\n' || c == '\r') && len(q) == 1:
			return i, false
		case f && c == '{' && i+1 < len(src) && src[i+1] == '{':
			i += 2
		case f && c == '{':
			if i, ok = replacementEnd(src, i+1, q, depth+1); !ok {
				return i, false
			}
		default:
			i++
		}
	}
	return i, false
}

func quotes(src []byte, at int) (q []byte, inside int) {
	if at+2 < len(src) && src[at+1] == src[at] && src[at+2] == src[at] {
		return src[at : at+3], at + 3
	}
	return src[at : at+1], at + 1
}

// replacementEnd is behind the brace that closes a replacement field, which begins at i.
func replacementEnd(src []byte, i int, q []byte, depth int) (int, bool) {
	if depth > maxStrings {
		return i, false
	}
	_, i, ok := fieldExpression(src, i, depth)
	if !ok {
		return i, false
	}
	if i < len(src) && src[i] == '!' {
		for i++; i < len(src) && (letter(src[i]) || src[i] == ' '); i++ {
		}
	}
	if i < len(src) && src[i] == ':' {
		for i++; i < len(src) && src[i] != '}'; {
			if src[i] == '{' {
				if i, ok = replacementEnd(src, i+1, q, depth+1); !ok {
					return i, false
				}
				continue
			}
			if bytes.HasPrefix(src[i:], q) || len(q) == 1 && src[i] == '\n' {
				return i, false
			}
			i++
		}
	}
	if i < len(src) && src[i] == '}' {
		return i + 1, true
	}
	return i, false
}

// fieldExpression is where the expression of a replacement field ends, and where what follows it begins: a conversion,
// a format or the closing brace. Between the two stands the = of f"{x=}", if anything.
func fieldExpression(src []byte, i, depth int) (end, next int, ok bool) {
	brackets := 0
	for i < len(src) {
		c := src[i]
		switch {
		case c == '(' || c == '[' || c == '{':
			brackets++
		case brackets > 0 && (c == ')' || c == ']' || c == '}'):
			brackets--
		case c == '#':
			for i < len(src) && src[i] != '\n' && src[i] != '\r' {
				i++
			}
			continue
		case c == '"' || c == '\'':
			start := i
			for start > 0 && i-start < 2 && letter(src[start-1]) && prefix(src[start-1:i]) {
				start--
			}
			if start > 0 && (letter(src[start-1]) || digit(src[start-1])) {
				start = i
			}
			if i, ok = stringEnd(src, start, i, depth+1); !ok {
				return i, i, false
			}
			continue
		case brackets > 0:
		case c == '!' && i+1 < len(src) && src[i+1] == '=',
			(c == '<' || c == '>' || c == '=') && i+1 < len(src) && src[i+1] == '=':
			i++
		case c == '}' || c == ':' || c == '!':
			return i, i, true
		case c == '=':
			next := i + 1
			for next < len(src) && bytes.IndexByte([]byte(" \t\r\n"), src[next]) >= 0 {
				next++
			}
			if next < len(src) && (src[next] == '}' || src[next] == ':' || src[next] == '!') {
				return i, next, true
			}
		}
		i++
	}
	return i, i, false
}

var operators = []string{"**=", "//=", ">>=", "<<=", "...", "**", "//", ">>", "<<", "<=", ">=", "==", "!=", "->", "+=",
	"-=", "*=", "/=", "%=", "&=", "|=", "^=", "@=", ":="}

func (l *lexer) operator() {
	rest := l.src[l.at:l.end]
	n := 1
	for _, op := range operators {
		if bytes.HasPrefix(rest, []byte(op)) {
			n = len(op)
			break
		}
	}
	switch c := rest[0]; {
	case c == '(' || c == '[' || c == '{':
		l.depth++
	case c == ')' || c == ']' || c == '}':
		if l.depth > 0 && !(l.inside && l.depth == 1) {
			l.depth--
		}
	case n == 1 && bytes.IndexByte([]byte("+-*/%@<>=&|^~.,;:"), c) < 0:
		l.bad(l.at, l.at+1, "has %q within", c)
		l.at++
		return
	}
	l.add(operatorToken, l.at, l.at+n)
	l.at += n
}

// Masked is a program whose strings and comments are blank, in the same places: what is left is structure.
func Masked(src []byte) []byte {
	out := bytes.Clone(src)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	at := 0
	for _, t := range tokens(src, 0, len(src), false) {
		if i := bytes.IndexByte(src[min(at, t.start):t.start], '#'); i >= 0 {
			blank(at+i, t.start)
		}
		if t.kind == stringToken {
			quote := t.start
			for letter(src[quote]) {
				quote++
			}
			q, from := quotes(src[:t.end], quote)
			blank(from, t.end-len(q))
		}
		at = max(at, t.end)
	}
	return out
}
