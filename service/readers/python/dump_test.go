package python

import (
	"fmt"
	"math"
	"math/big"
	"strings"
)

// dumped writes a tree as testdata/trees.py writes CPython's.
func dumped(n *Node, b *strings.Builder, l lines, inText bool) {
	if n == nil {
		b.WriteString("_")
		return
	}
	b.WriteString("(" + n.Kind)
	switch {
	case inText || n.Kind == "Module" || n.Kind == "arguments" || n.Kind == "comprehension" || n.Kind == "withitem" || n.Kind == "match_case":
	default:
		line, last := l.of(n.Start), l.of(n.End)
		fmt.Fprintf(b, "@%d:%d-%d:%d", line, n.Start-l[line-1], last, n.End-l[last-1])
	}
	for _, s := range append([]string{n.Name}, n.Names...) {
		if s != "" {
			b.WriteString(" " + s)
		}
	}
	if n.Number != 0 {
		fmt.Fprintf(b, " %d", n.Number)
	}
	if n.Kind == "Constant" || n.Kind == "MatchSingleton" {
		b.WriteString(" " + constant(n.Value))
	}
	for _, p := range n.parts {
		b.WriteString(" " + p.name + "=")
		if p.list == nil {
			dumped(p.node, b, l, inText || n.Kind == "JoinedStr")
			continue
		}
		b.WriteString("[")
		for _, c := range p.list {
			dumped(c, b, l, inText || n.Kind == "JoinedStr")
		}
		b.WriteString("]")
	}
	b.WriteString(")")
}

func constant(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case *big.Int:
		return "i" + v.Text(16)
	case float64:
		return fmt.Sprintf("f%016x", math.Float64bits(v))
	case Imaginary:
		return fmt.Sprintf("j%016x", math.Float64bits(float64(v)))
	case string:
		return fmt.Sprintf("s%x", v)
	case Bytes:
		return fmt.Sprintf("b%x", string(v))
	case Ellipsis:
		return "..."
	}
	return fmt.Sprintf("%T", v)
}
