package python

import (
	"bytes"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDigits is the longest number that is read (CPython's sys.int_info.default_max_str_digits).
const maxDigits = 4300

func number(s string) (any, bool) {
	if len(s) > maxDigits {
		return nil, false
	}
	s = strings.ReplaceAll(s, "_", "")
	low := strings.ToLower(s)
	if !strings.HasPrefix(low, "0x") && strings.ContainsAny(low, ".ej") {
		imaginary := strings.HasSuffix(low, "j")
		f, err := strconv.ParseFloat(strings.TrimSuffix(low, "j"), 64)
		if err != nil && !strings.Contains(err.Error(), "range") {
			return nil, false
		}
		if imaginary {
			return Imaginary(f), true
		}
		return f, true
	}
	base := 10
	if len(low) > 2 && low[0] == '0' && (low[1] == 'x' || low[1] == 'o' || low[1] == 'b') {
		base = 0
	}
	if base == 10 && len(s) > 1 && s[0] == '0' && strings.Trim(s, "0") != "" {
		return nil, false
	}
	n, ok := new(big.Int).SetString(low, base)
	return n, ok
}

// str reads strings that stand beside one another, which are one.
func (p *parser) str() *Node {
	start := p.peek().start
	f, isBytes, isText, unnamed := false, false, false, false
	var parts []*Node // of an f-string: texts and fields by turns
	var text strings.Builder
	textStart, textEnd := start, start
	flush := func() {
		if text.Len() > 0 {
			n := &Node{Kind: "Constant", Start: textStart, End: textEnd, Line: p.lines.of(textStart), Value: text.String()}
			if unnamed {
				n.Value = Unnamed{}
			}
			parts = append(parts, n)
			text.Reset()
		}
	}
	for p.peek().kind == stringToken {
		t := p.next()
		quote := t.start
		for letter(p.src[quote]) {
			quote++
		}
		prefix := strings.ToLower(string(p.src[t.start:quote]))
		raw := strings.Contains(prefix, "r")
		q, from := quotes(p.src[:t.end], quote)
		to := t.end - len(q)
		isBytes = isBytes || strings.Contains(prefix, "b")
		isText = isText || !strings.Contains(prefix, "b")
		textEnd = t.end
		if strings.Contains(prefix, "f") {
			f = true
			p.formatted(from, to, raw, false, &text, &unnamed, func(x *Node) {
				flush()
				parts = append(parts, x)
			})
			continue
		}
		s, ok := unescaped(p.src[from:to], raw, strings.Contains(prefix, "b"))
		unnamed = unnamed || !ok
		text.WriteString(s)
	}
	if isBytes && isText {
		p.i--
		p.fail("puts bytes and text beside one another")
	}
	if f {
		flush()
		return p.node("JoinedStr", start, many("values", parts))
	}
	n := p.node("Constant", start)
	switch {
	case isBytes:
		n.Value = Bytes(text.String())
	case unnamed:
		n.Value = Unnamed{}
	default:
		n.Value = text.String()
	}
	return n
}

// formatted reads the inside of an f-string, or of a format in one.
func (p *parser) formatted(from, to int, raw, format bool, text *strings.Builder, unnamed *bool, field func(*Node)) {
	literal := func(a, b int) {
		s, ok := unescaped(p.src[a:b], raw, false)
		*unnamed = *unnamed || !ok
		text.WriteString(s)
	}
	begin := from
	for i := from; i < to; {
		switch c := p.src[i]; {
		case c == '\\' && !raw && bytes.HasPrefix(p.src[i:to], []byte(`\N{`)):
			for i < to && p.src[i] != '}' {
				i++
			}
		case c == '\\' && i+1 < to && p.src[i+1] != '{' && p.src[i+1] != '}':
			i += 2
		case !format && (c == '{' || c == '}') && i+1 < to && p.src[i+1] == c:
			literal(begin, i+1)
			i += 2
			begin = i
		case c == '{':
			literal(begin, i)
			x, next := p.field(i, to, raw, text)
			field(x)
			i, begin = next, next
		default:
			i++
		}
	}
	literal(begin, to)
}

// field reads a replacement field, whose brace is at open.
func (p *parser) field(open, to int, raw bool, text *strings.Builder) (x *Node, next int) {
	if p.strings++; p.strings > maxStrings {
		p.fail("has f-strings in one another more than %d times", maxStrings)
	}
	defer func() { p.strings-- }()
	end, next, ok := fieldExpression(p.src[:to], open+1, 0)
	if !ok {
		p.fail("has a brace in an f-string that is never closed")
	}
	sub := &parser{src: p.src, lines: p.lines, tokens: tokens(p.src, open+1, end, true), strings: p.strings,
		nested: p.nested}
	var value *Node
	if sub.at("yield") {
		value = sub.yield()
	} else {
		value = sub.starExpressions()
	}
	if sub.peek().kind != endToken {
		sub.unexpected()
	}
	conversion := -1
	said := p.src[end] == '='
	if said {
		text.Write(p.src[open+1 : next])
	}
	i := next
	if i < to && p.src[i] == '!' {
		i++
		for i < to && p.src[i] == ' ' {
			i++
		}
		if i < to {
			conversion = int(p.src[i])
		}
		for i++; i < to && p.src[i] == ' '; i++ {
		}
	}
	var format *Node
	if i < to && p.src[i] == ':' {
		var parts []*Node
		var inside strings.Builder
		unnamed := false
		start := i + 1
		end := formatEnd(p.src[:to], start)
		flush := func() {
			if inside.Len() > 0 {
				parts = append(parts, &Node{Kind: "Constant", Start: start, End: end, Line: p.lines.of(start), Value: inside.String()})
				inside.Reset()
			}
		}
		p.formatted(start, end, raw, true, &inside, &unnamed, func(x *Node) {
			flush()
			parts = append(parts, x)
		})
		flush()
		format = p.node("JoinedStr", start, many("values", parts))
		format.End = end
		i = end
	} else if said && conversion < 0 {
		conversion = 'r'
	}
	if i >= to || p.src[i] != '}' {
		p.fail("has a brace in an f-string that is never closed")
	}
	x = p.node("FormattedValue", open, one("value", value), one("format_spec", format)).counted(conversion)
	x.End = i + 1
	return x, i + 1
}

// formatEnd is the brace that closes a format.
func formatEnd(src []byte, i int) int {
	for depth := 0; i < len(src); i++ {
		switch src[i] {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return i
}

var escapes = map[byte]byte{'\\': '\\', '\'': '\'', '"': '"', 'a': 7, 'b': 8, 'f': 12, 'n': 10, 'r': 13, 't': 9,
	'v': 11}

// unescaped is what a string's inside means; false where it names a character.
func unescaped(src []byte, raw, isBytes bool) (string, bool) {
	if bytes.IndexByte(src, '\r') >= 0 {
		src = bytes.ReplaceAll(bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	}
	if raw || bytes.IndexByte(src, '\\') < 0 {
		return string(src), true
	}
	named := true
	out := make([]byte, 0, len(src))
	for i := 0; i < len(src); i++ {
		if src[i] != '\\' || i+1 == len(src) {
			out = append(out, src[i])
			continue
		}
		i++
		c := src[i]
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		switch {
		case escapes[c] != 0:
			out = append(out, escapes[c])
		case c == '\n':
		case c >= '0' && c <= '7':
			n, end := 0, i
			for ; end < len(src) && end < i+3 && src[end] >= '0' && src[end] <= '7'; end++ {
				n = n*8 + int(src[end]-'0')
			}
			i = end - 1
			out = character(out, n, isBytes)
		case digits > 0 && (c == 'x' || !isBytes) && i+digits < len(src):
			n, err := strconv.ParseUint(string(src[i+1:i+1+digits]), 16, 32)
			if err != nil {
				out = append(out, '\\', c)
				break
			}
			out = character(out, int(n), isBytes)
			i += digits
		case c == 'N' && !isBytes && i+1 < len(src) && src[i+1] == '{':
			named = false
			for i < len(src)-1 && src[i] != '}' {
				i++
			}
			out = append(out, '?')
		default:
			out = append(out, '\\', c)
		}
	}
	return string(out), named
}

// character appends one; halves of a surrogate pair are written as three bytes, as CPython's surrogatepass does.
func character(out []byte, n int, isBytes bool) []byte {
	switch {
	case isBytes:
		return append(out, byte(n))
	case n >= 0xd800 && n < 0xe000:
		return append(out, 0xe0|byte(n>>12), 0x80|byte(n>>6)&0xbf, 0x80|byte(n)&0xbf)
	}
	return utf8.AppendRune(out, rune(n))
}
