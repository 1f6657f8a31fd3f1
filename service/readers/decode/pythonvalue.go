package decode

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// evaluator values Python expressions of a closed kind: literals, names that were assigned, arithmetic, conditionals
// whose condition is known, lists, tuples and dictionaries. Nothing is executed.
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
	parsed, length, err := python.ParseExpression([]byte(written))
	if err != nil {
		return v
	}
	plain, ok := e.eval(parsed, 0)
	v.Text = written[:length]
	if isLiteral(parsed) && written[0] != '(' {
		v.Origin.At = e.text.span(start, start+length)
	} else {
		v.Origin.At.End = start + length
	}
	if ok {
		v.Any, v.Unknown = plain, ""
	}
	return v
}

// isLiteral reports whether a number or a string stands there, in whose place another can be written.
func isLiteral(x *python.Node) bool {
	if !x.Is("Constant") {
		return false
	}
	switch x.Value.(type) {
	case string, float64, *big.Int:
		return true
	}
	return false
}

func (e *evaluator) eval(x *python.Node, depth int) (any, bool) {
	if depth > maxDepth {
		return nil, false
	}
	switch x.Kind {
	case "Constant":
		switch n := x.Value.(type) {
		case nil, bool, string, float64:
			return n, true
		case *big.Int:
			return n.Int64(), n.IsInt64()
		}
	case "JoinedStr":
		return e.format(x, depth)
	case "Name":
		v, ok := e.names.Peek(x.Name)
		if !ok {
			v, ok = e.known(x.Name)
		}
		e.seen = append(e.seen, e.uses[x.Name]...)
		return v.Any, ok && v.Unknown == ""
	case "Attribute":
		name := dotted(x)
		if v, ok := e.known(name); ok {
			return v.Any, v.Unknown == ""
		}
		return name, strings.HasPrefix(name, "torch.")
	case "UnaryOp":
		return e.unary(x, depth)
	case "BinOp":
		return e.binary(x.Name, x.Part("left"), x.Part("right"), depth)
	case "Compare":
		if len(x.Names) == 1 {
			return e.binary(x.Names[0], x.Part("left"), x.List("comparators")[0], depth)
		}
	case "IfExp":
		c, ok := e.eval(x.Part("test"), depth+1)
		on, isBool := c.(bool)
		if !ok || !isBool {
			return nil, false
		}
		if on {
			return e.eval(x.Part("body"), depth+1)
		}
		return e.eval(x.Part("orelse"), depth+1)
	case "List", "Tuple":
		return e.list(x.List("elts"), depth)
	case "Dict":
		return e.dict(x, depth)
	case "Lambda":
		return e.eval(x.Part("body"), depth+1)
	case "Call":
		return e.call(x)
	}
	return nil, false
}

// call values the questions whether the card can do bfloat16, which every card since 2020 answers with yes; both
// answers take two bytes.
func (e *evaluator) call(x *python.Node) (any, bool) {
	name := dotted(x.Part("func"))
	switch name[strings.LastIndexByte(name, '.')+1:] {
	case "is_bfloat16_supported", "is_bf16_supported", "is_torch_bf16_gpu_available":
		return true, true
	}
	return nil, false
}

func (e *evaluator) unary(x *python.Node, depth int) (any, bool) {
	v, ok := e.eval(x.Part("operand"), depth+1)
	if !ok {
		return nil, false
	}
	switch n := v.(type) {
	case int64:
		if x.Name == "USub" {
			return -n, true
		}
		return n, x.Name == "UAdd"
	case float64:
		if x.Name == "USub" {
			return -n, true
		}
		return n, x.Name == "UAdd"
	case bool:
		return !n, x.Name == "Not"
	}
	return nil, false
}

func (e *evaluator) binary(op string, left, right *python.Node, depth int) (any, bool) {
	a, okA := e.eval(left, depth+1)
	b, okB := e.eval(right, depth+1)
	if !okA || !okB {
		return nil, false
	}
	if op == "Is" || op == "IsNot" {
		if a != nil && b != nil {
			return nil, false // whether two equal values are one object is the interpreter's affair
		}
		return (a == nil && b == nil) == (op == "Is"), true
	}
	if s, ok := a.(string); ok {
		t, ok := b.(string)
		switch {
		case !ok:
			return nil, false
		case op == "Add":
			return s + t, len(s)+len(t) < 4096
		case op == "Eq":
			return s == t, true
		case op == "NotEq":
			return s != t, true
		}
		return nil, false
	}
	return arithmetic(op, a, b)
}

// arithmetic works out one operation as Python would; integers that leave 53 bits are not followed.
func arithmetic(op string, a, b any) (any, bool) {
	x, xFloat, okX := number(a)
	y, yFloat, okY := number(b)
	if !okX || !okY {
		return nil, false
	}
	var f float64
	switch op {
	case "Add":
		f = x + y
	case "Sub":
		f = x - y
	case "Mult":
		f = x * y
	case "Div", "FloorDiv", "Mod":
		if y == 0 {
			return nil, false
		}
		if f = x / y; op != "Div" {
			f = math.Floor(f)
		}
		if op == "Mod" {
			f = x - f*y
		}
	case "Eq":
		return x == y, true
	case "NotEq":
		return x != y, true
	case "Lt":
		return x < y, true
	case "Gt":
		return x > y, true
	case "LtE":
		return x <= y, true
	case "GtE":
		return x >= y, true
	case "Pow":
		if xFloat || yFloat || x < 0 || y < 0 {
			return nil, false
		}
		f = math.Pow(x, y)
	default:
		return nil, false
	}
	if math.IsNaN(f) || math.Abs(f) > 1<<53 {
		return nil, false
	}
	if xFloat || yFloat || op == "Div" {
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

func (e *evaluator) list(items []*python.Node, depth int) (any, bool) {
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

func (e *evaluator) dict(x *python.Node, depth int) (any, bool) {
	out := map[string]any{}
	values := x.List("values")
	for i, key := range x.List("keys") {
		if key == nil {
			return nil, false // another dictionary is spread
		}
		k, okK := e.eval(key, depth+1)
		v, okV := e.eval(values[i], depth+1)
		name, isString := k.(string)
		if !okK || !okV || !isString {
			return nil, false
		}
		out[name] = v
	}
	return out, true
}

// format puts values between the braces of f"…"; formats and conversions are not followed.
func (e *evaluator) format(x *python.Node, depth int) (any, bool) {
	var out strings.Builder
	for _, part := range x.List("values") {
		if part.Is("FormattedValue") {
			if part.Number != -1 || part.Part("format_spec") != nil {
				return nil, false
			}
			part = part.Part("value")
		}
		v, ok := e.eval(part, depth+1)
		switch v := v.(type) {
		case string:
			out.WriteString(v)
		case int64:
			out.WriteString(strconv.FormatInt(v, 10))
		default:
			return nil, false
		}
		if !ok || out.Len() > 4096 {
			return nil, false
		}
	}
	return out.String(), true
}

// dotted is a name with its points: torch.bfloat16.
func dotted(x *python.Node) string {
	switch {
	case x.Is("Name"):
		return x.Name
	case x.Is("Attribute"):
		if root := dotted(x.Part("value")); root != "" {
			return root + "." + x.Name
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
