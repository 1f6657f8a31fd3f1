package decode

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.starlark.net/syntax"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// evaluator values Python expressions of a closed kind: literals, names that were assigned, arithmetic, conditionals
// whose condition is known, lists, tuples and dictionaries. Starlark's parser reads them; nothing is executed.
type evaluator struct {
	text  *text
	names *setting.Settings
	// parts are the entries of dictionaries, and the attributes of objects, that names hold.
	parts map[string]*setting.Settings
	// classes are the attributes that classes of the file declare.
	classes map[string]*setting.Settings
	// given are values that are known beforehand, by names with points; uses are those that a name's value rests on,
	// and seen those that were looked up since it was emptied.
	given *setting.Settings
	uses  map[string][]string
	seen  []string
	// copied counts the entries and attributes that were copied from one name to another.
	copied int
}

// maxUses is the most that is remembered of what a name's value rests on, and of the classes of a file.
const maxUses = 64

// copies takes n of what may be copied of one file, and reports whether that much was left.
func (e *evaluator) copies(n int) bool {
	e.copied += n
	return e.copied <= maxNodes
}

func newEvaluator(t *text, names, given *setting.Settings) *evaluator {
	return &evaluator{text: t, names: names, given: given, parts: map[string]*setting.Settings{},
		classes: map[string]*setting.Settings{}, uses: map[string][]string{}}
}

// known is what is known of a name beforehand, by itself or by the object that it is an attribute of.
func (e *evaluator) known(name string) (setting.Value, bool) {
	if v, ok := e.given.Peek(name); ok {
		e.seen = append(e.seen, name)
		return v, true
	}
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return setting.Value{}, false
	}
	for _, objects := range []map[string]*setting.Settings{e.parts, e.classes} {
		if of, ok := objects[name[:i]]; ok {
			e.seen = append(e.seen, e.uses[name[:i]]...)
			return of.Peek(name[i+1:])
		}
	}
	return setting.Value{}, false
}

const maxExpressionBytes = 1 << 14

// dialect is that of the expressions; none of its switches concerns expressions.
var dialect = &syntax.FileOptions{}

var power = regexp.MustCompile(`^\s*(\d{1,6})\s*\*\*\s*(\d{1,2})\s*$`)

// value reads the expression between two places of the text.
func (e *evaluator) value(start, end int) setting.Value {
	b := e.text.bytes[start:end]
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\n' || b[0] == '\r') {
		b, start = b[1:], start+1
	}
	written := strings.TrimRight(string(b), " \t\r\n")
	line := e.text.line(start)
	v := setting.Value{Text: written, Unknown: notAValue,
		Origin: setting.Origin{Kind: setting.File, At: setting.Span{File: e.text.file, Start: start, End: start,
			Line: line}}}
	if len(written) > maxExpressionBytes || deepJSON([]byte(written)) {
		return v
	}
	if own, ok := e.known(written); ok && !e.names.Has(written) {
		return own
	}
	if inner, ok := formatted(written); ok {
		if s, ok := e.format(inner); ok {
			v.Any, v.Unknown = s, ""
			v.Origin.At.End = start + len(written)
		}
		return v
	}
	if m := power.FindStringSubmatch(written); m != nil {
		x, _ := strconv.ParseFloat(m[1], 64)
		y, _ := strconv.ParseFloat(m[2], 64)
		if f := math.Pow(x, y); f < 1<<53 {
			v.Any, v.Unknown = int64(f), ""
			v.Origin.At.End = start + len(written)
		}
		return v
	}
	parsed, err := dialect.ParseExpr(e.text.file, strings.ReplaceAll(written, "\r", " "), 0)
	if err != nil {
		return v
	}
	plain, ok := e.eval(parsed, 0)
	_, last := parsed.Span()
	length := offsetOf(written, last)
	v.Text = written[:length]
	if _, isLiteral := parsed.(*syntax.Literal); isLiteral {
		v.Origin.At = e.text.span(start, start+length)
	} else {
		v.Origin.At.End = start + length
	}
	if ok {
		v.Any, v.Unknown = plain, ""
	}
	return v
}

// offsetOf turns the parser's line and column, which counts characters, into bytes.
func offsetOf(s string, p syntax.Position) int {
	at := 0
	for line := int32(1); line < p.Line; line++ {
		i := strings.IndexByte(s[at:], '\n')
		if i < 0 {
			return len(s)
		}
		at += i + 1
	}
	column := int32(1)
	for i := range s[at:] {
		if column == p.Col {
			return at + i
		}
		column++
	}
	return len(s)
}

func (e *evaluator) eval(x syntax.Expr, depth int) (any, bool) {
	if depth > maxDepth {
		return nil, false
	}
	switch x := x.(type) {
	case *syntax.Literal:
		switch n := x.Value.(type) {
		case string, float64, int64:
			return n, true
		}
	case *syntax.ParenExpr:
		return e.eval(x.X, depth+1)
	case *syntax.Ident:
		switch x.Name {
		case "True":
			return true, true
		case "False":
			return false, true
		case "None":
			return nil, true
		}
		v, ok := e.names.Peek(x.Name)
		if !ok {
			v, ok = e.known(x.Name)
		}
		e.seen = append(e.seen, e.uses[x.Name]...)
		return v.Any, ok && v.Unknown == ""
	case *syntax.DotExpr:
		name := dotted(x)
		if v, ok := e.known(name); ok {
			return v.Any, v.Unknown == ""
		}
		return name, strings.HasPrefix(name, "torch.")
	case *syntax.UnaryExpr:
		return e.unary(x, depth)
	case *syntax.BinaryExpr:
		return e.binary(x, depth)
	case *syntax.CondExpr:
		c, ok := e.eval(x.Cond, depth+1)
		on, isBool := c.(bool)
		if !ok || !isBool {
			return nil, false
		}
		if on {
			return e.eval(x.True, depth+1)
		}
		return e.eval(x.False, depth+1)
	case *syntax.ListExpr:
		return e.list(x.List, depth)
	case *syntax.TupleExpr:
		return e.list(x.List, depth)
	case *syntax.DictExpr:
		return e.dict(x, depth)
	case *syntax.LambdaExpr:
		return e.eval(x.Body, depth+1)
	case *syntax.CallExpr:
		return e.call(x)
	}
	return nil, false
}

// call values the questions whether the card can do bfloat16, which every card since 2020 answers with yes; both
// answers take two bytes.
func (e *evaluator) call(x *syntax.CallExpr) (any, bool) {
	name := dotted(x.Fn)
	switch name[strings.LastIndexByte(name, '.')+1:] {
	case "is_bfloat16_supported", "is_bf16_supported", "is_torch_bf16_gpu_available":
		return true, true
	}
	return nil, false
}

func (e *evaluator) unary(x *syntax.UnaryExpr, depth int) (any, bool) {
	v, ok := e.eval(x.X, depth+1)
	if !ok {
		return nil, false
	}
	switch n := v.(type) {
	case int64:
		if x.Op == syntax.MINUS {
			return -n, true
		}
		return n, x.Op == syntax.PLUS
	case float64:
		if x.Op == syntax.MINUS {
			return -n, true
		}
		return n, x.Op == syntax.PLUS
	case bool:
		return !n, x.Op == syntax.NOT
	}
	return nil, false
}

func (e *evaluator) binary(x *syntax.BinaryExpr, depth int) (any, bool) {
	a, okA := e.eval(x.X, depth+1)
	b, okB := e.eval(x.Y, depth+1)
	if !okA || !okB {
		return nil, false
	}
	if s, ok := a.(string); ok {
		t, ok := b.(string)
		switch {
		case !ok:
			return nil, false
		case x.Op == syntax.PLUS:
			return s + t, len(s)+len(t) < 4096
		case x.Op == syntax.EQL:
			return s == t, true
		case x.Op == syntax.NEQ:
			return s != t, true
		}
		return nil, false
	}
	return arithmetic(x.Op, a, b)
}

// arithmetic works out one operation as Python would; integers that leave 53 bits are not followed.
func arithmetic(op syntax.Token, a, b any) (any, bool) {
	x, xFloat, okX := number(a)
	y, yFloat, okY := number(b)
	if !okX || !okY {
		return nil, false
	}
	var f float64
	switch op {
	case syntax.PLUS:
		f = x + y
	case syntax.MINUS:
		f = x - y
	case syntax.STAR:
		f = x * y
	case syntax.SLASH, syntax.SLASHSLASH, syntax.PERCENT:
		if y == 0 {
			return nil, false
		}
		if f = x / y; op != syntax.SLASH {
			f = math.Floor(f)
		}
		if op == syntax.PERCENT {
			f = x - f*y
		}
	case syntax.EQL:
		return x == y, true
	case syntax.NEQ:
		return x != y, true
	case syntax.LT:
		return x < y, true
	case syntax.GT:
		return x > y, true
	default:
		return nil, false
	}
	if math.IsNaN(f) || math.Abs(f) > 1<<53 {
		return nil, false
	}
	if xFloat || yFloat || op == syntax.SLASH {
		return f, true
	}
	return int64(f), true
}

func number(v any) (value float64, float, ok bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), false, v <= 1<<53 && v >= -1<<53
	case float64:
		return v, true, true
	}
	return 0, false, false
}

func (e *evaluator) list(items []syntax.Expr, depth int) (any, bool) {
	out := make([]any, 0, len(items))
	for _, x := range items {
		v, ok := e.eval(x, depth+1)
		if !ok {
			return nil, false
		}
		out = append(out, v)
	}
	return out, true
}

func (e *evaluator) dict(x *syntax.DictExpr, depth int) (any, bool) {
	out := map[string]any{}
	for _, entry := range x.List {
		pair, ok := entry.(*syntax.DictEntry)
		if !ok {
			return nil, false
		}
		k, okK := e.eval(pair.Key, depth+1)
		v, okV := e.eval(pair.Value, depth+1)
		name, isString := k.(string)
		if !okK || !okV || !isString {
			return nil, false
		}
		out[name] = v
	}
	return out, true
}

// dotted is a name with its points: torch.bfloat16.
func dotted(x syntax.Expr) string {
	switch x := x.(type) {
	case *syntax.Ident:
		return x.Name
	case *syntax.DotExpr:
		if root := dotted(x.X); root != "" {
			return root + "." + x.Name.Name
		}
	}
	return ""
}

// fieldDefault is the default in field(default=…) or field(default_factory=lambda: …).
func (e *evaluator) fieldDefault(open, end int, v setting.Value, masked []byte) setting.Value {
	if end < 0 {
		return v
	}
	for _, a := range arguments(masked, open, end) {
		k := keyword.FindSubmatchIndex(masked[a[0]:a[1]])
		if k == nil {
			continue
		}
		if name := string(masked[a[0]+k[2] : a[0]+k[3]]); name == "default" || name == "default_factory" {
			at := v.Origin
			v = e.value(a[0]+k[1]-1, a[1])
			if at.At = v.Origin.At; at.At.Known() {
				v.Origin = at
			}
		}
	}
	return v
}
