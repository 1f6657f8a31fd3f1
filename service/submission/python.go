package submission

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// values are the module-level names of a Python file that hold plain values: int64,
// float64, bool, string, or nil for None. A name that is assigned in a way that this
// reader does not follow has the value unknownValue.
type values map[string]any

type unknownValue struct{}

const maxPythonLines = 20000

var (
	assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)[ \t]*(?::[ \t]*[A-Za-z_.]+[ \t]*)?=[ \t]*([^=].*)$`)
	// rebinds finds the names that any other line might bind: a = b = 1, a += 1, (a := 1), for a in …
	rebinds = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*)[ \t]*(?:[-+*/%&|^@]|//|\*\*|<<|>>|:)?=(?:[^=]|$)|(?:for|as|del|global)[ \t]+([A-Za-z_][A-Za-z0-9_]*)|globals\(\)\[['"]([A-Za-z_][A-Za-z0-9_]*)|([A-Za-z_][A-Za-z0-9_]*)[ \t]*,`)
)

// readPython reads the "name = expression" lines of a Python file into v. The expressions
// are numbers, strings, True, False, None, names that were read before, + - * / // % ** and
// brackets: a closed grammar, of which nothing is executed. It stops at the line that begins with stop.
func (v values) readPython(text []byte, stop string) {
	lines := 0
	docstring := ""
	for line := range splitLines(text) {
		if lines++; lines > maxPythonLines || stop != "" && strings.HasPrefix(line, stop) {
			return
		}
		if docstring != "" { // inside a triple-quoted string
			if _, rest, closed := strings.Cut(line, docstring); closed {
				docstring = ""
				v.rebind(rest)
			}
			continue
		}
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		if quotes := trimmed[:min(3, len(trimmed))]; quotes == `"""` || quotes == "'''" {
			if !strings.Contains(trimmed[3:], quotes) {
				docstring = quotes
			}
			continue
		}
		m := assignment.FindStringSubmatch(line)
		if m == nil {
			v.rebind(line)
			continue
		}
		value, ok := v.evaluate(m[2])
		if !ok {
			v.rebind(line)
			if i := strings.Index(m[2], `"""`); i >= 0 && strings.Count(m[2], `"""`)%2 == 1 {
				docstring = `"""`
			} else if strings.Count(m[2], `'''`)%2 == 1 {
				docstring = `'''`
			}
			continue
		}
		v[m[1]] = value
	}
}

// rebind forgets the names that a line of another kind may change.
func (v values) rebind(line string) {
	for _, m := range rebinds.FindAllStringSubmatch(line, -1) {
		for _, name := range m[1:] {
			if name != "" {
				v[name] = unknownValue{}
			}
		}
	}
}

// evaluate reads one expression, with a comment behind it or not.
func (v values) evaluate(text string) (any, bool) {
	e := expression{text: text, names: v}
	value, ok := e.sum(0)
	e.blank()
	if !ok || e.at < len(e.text) && e.text[e.at] != '#' {
		return nil, false
	}
	return value, true
}

// expression is a recursive-descent reader of Python's arithmetic.
type expression struct {
	text  string
	at    int
	names values
}

const maxExpressionDepth = 50

func (e *expression) blank() {
	for e.at < len(e.text) && (e.text[e.at] == ' ' || e.text[e.at] == '\t') {
		e.at++
	}
}

func (e *expression) take(operators ...string) string {
	e.blank()
	for _, op := range operators {
		if strings.HasPrefix(e.text[e.at:], op) {
			if next := e.at + len(op); op == "*" && next < len(e.text) && e.text[next] == '*' {
				continue
			}
			e.at += len(op)
			return op
		}
	}
	return ""
}

func (e *expression) sum(depth int) (any, bool) {
	left, ok := e.product(depth)
	for ok {
		op := e.take("+", "-")
		if op == "" {
			return left, true
		}
		var right any
		if right, ok = e.product(depth); ok {
			left, ok = arithmetic(op, left, right)
		}
	}
	return nil, false
}

func (e *expression) product(depth int) (any, bool) {
	left, ok := e.unary(depth)
	for ok {
		op := e.take("//", "*", "/", "%")
		if op == "" {
			return left, true
		}
		var right any
		if right, ok = e.unary(depth); ok {
			left, ok = arithmetic(op, left, right)
		}
	}
	return nil, false
}

func (e *expression) unary(depth int) (any, bool) {
	if depth > maxExpressionDepth {
		return nil, false
	}
	switch e.take("-", "+") {
	case "-":
		value, ok := e.unary(depth + 1)
		if !ok {
			return nil, false
		}
		return arithmetic("-", int64(0), value)
	case "+":
		return e.unary(depth + 1)
	}
	base, ok := e.atom(depth)
	if ok && e.take("**") != "" {
		var power any
		if power, ok = e.unary(depth + 1); ok {
			return arithmetic("**", base, power)
		}
	}
	return base, ok
}

var (
	number = regexp.MustCompile(`^(?:0[xX][0-9a-fA-F_]+|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?)`)
	name   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)
)

func (e *expression) atom(depth int) (any, bool) {
	e.blank()
	rest := e.text[e.at:]
	switch {
	case rest == "":
		return nil, false
	case rest[0] == '(':
		e.at++
		value, ok := e.sum(depth + 1)
		return value, ok && e.take(")") != ""
	case rest[0] == '"' || rest[0] == '\'':
		if strings.HasPrefix(rest, `"""`) || strings.HasPrefix(rest, "'''") {
			return nil, false
		}
		end := strings.IndexByte(rest[1:], rest[0])
		if end < 0 || strings.ContainsRune(rest[1:1+end], '\\') {
			return nil, false
		}
		e.at += end + 2
		return rest[1 : 1+end], true
	}
	if m := number.FindString(rest); m != "" {
		e.at += len(m)
		return readNumber(strings.ReplaceAll(m, "_", ""))
	}
	m := name.FindString(rest)
	if m == "" {
		return nil, false
	}
	e.at += len(m)
	e.blank()
	if e.at < len(e.text) && strings.IndexByte("([.'\"", e.text[e.at]) >= 0 { // a call, an index, an f-string
		return nil, false
	}
	switch m {
	case "True":
		return true, true
	case "False":
		return false, true
	case "None":
		return nil, true
	}
	value, ok := e.names[m]
	_, unknown := value.(unknownValue)
	return value, ok && !unknown
}

func readNumber(s string) (any, bool) {
	if i, err := strconv.ParseInt(s, 0, 64); err == nil {
		return i, i <= 1<<53
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

// arithmetic works out one operation as Python would. Integers that leave 53 bits, and
// whatever is not arithmetic between numbers, are not followed.
func arithmetic(op string, a, b any) (any, bool) {
	x, xf, okX := asNumber(a)
	y, yf, okY := asNumber(b)
	if !okX || !okY {
		return nil, false
	}
	if xf || yf || op == "/" || op == "**" && y < 0 {
		f, ok := floats(op, x, y)
		return f, ok
	}
	f, ok := floats(op, x, y)
	if !ok || math.Abs(f) > 1<<53 || f != math.Trunc(f) {
		return nil, false
	}
	return int64(f), true
}

func asNumber(v any) (value float64, float, ok bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), false, v <= 1<<53 && v >= -1<<53
	case float64:
		return v, true, true
	}
	return 0, false, false
}

func floats(op string, x, y float64) (float64, bool) {
	var f float64
	switch op {
	case "+":
		f = x + y
	case "-":
		f = x - y
	case "*":
		f = x * y
	case "/", "//", "%":
		if y == 0 {
			return 0, false
		}
		f = x / y
		if op != "/" {
			f = math.Floor(f)
		}
		if op == "%" {
			f = x - f*y
		}
	case "**":
		f = math.Pow(x, y)
	}
	return f, !math.IsInf(f, 0) && !math.IsNaN(f)
}
