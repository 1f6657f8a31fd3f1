package python

import (
	"strings"
	"testing"
)

func read(t *testing.T, src string) (*Node, []*Error) {
	t.Helper()
	module, gaps, err := Parse([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return module, gaps
}

// TestSince312 is what the corpus, whose trees are of 3.11, cannot hold: each line is the same program as the older one
// beside it.
func TestSince312(t *testing.T) {
	for newer, older := range map[string]string{
		`f"{a["b"]}"`:                       `f"{a['b']}"`,
		`f"{x:{f"{1}"}}"`:                   `f"{x:{f'{1}'}}"`,
		"f\"{x # why\n}\"":                  `f"{x}"`,
		`f"{f"{f"{f"{1 + 1}"}"}"}"`:         `f"{f'''{f"""` + `{f'{1 + 1}'}` + `"""}'''}"`,
		`f'{", ".join(f'{k}' for k in v)}'`: `f"{', '.join(f'{k}' for k in v)}"`,
	} {
		got, gaps := read(t, newer)
		want, gapsOlder := read(t, older)
		if len(gaps)+len(gapsOlder) > 0 {
			t.Errorf("%s: %v %v", newer, gaps, gapsOlder)
			continue
		}
		var a, b strings.Builder
		dumped(got.List("body")[0].Part("value"), &a, newLines([]byte(newer)), true)
		dumped(want.List("body")[0].Part("value"), &b, newLines([]byte(older)), true)
		if a.String() != b.String() {
			t.Errorf("%s:\n got %s\nwant %s", newer, a.String(), b.String())
		}
	}
	m, gaps := read(t, "type A[T: int, *Ts, **P] = list[T]\ndef f[T](x: T): pass\nclass K[T = int]: pass\n")
	for i, want := range []string{"TypeAlias", "FunctionDef", "ClassDef"} {
		if n := m.List("body")[i]; len(gaps) > 0 || n.Kind != want || len(n.List("type_params")) == 0 {
			t.Errorf("statement %d is %s with %d parameters, gaps %v", i, n.Kind, len(n.List("type_params")), gaps)
		}
	}
}

// TestGaps: a statement that is no Python costs no other, and is named by its line.
func TestGaps(t *testing.T) {
	for _, c := range []struct {
		src, gap string
		line     int
		rest     []string
	}{
		{"a = 1\n!pip install x\nb = 2\n", `has '!' within`, 2, []string{"Assign", Gap, "Assign"}},
		{"f(a b)\nx = 1\n", `has "b" where ")" is expected`, 1, []string{Gap, "Assign"}},
		{"a = (1,\nb = 2\nc = 3\n", "never closed", 1, []string{Gap, "Assign", "Assign"}},
		{"a = 'x\nb = 2\n", "never closed", 1, []string{Gap, "Assign"}},
		{"a = '''x\nb = 2\n", "never closed", 1, []string{Gap, "Assign"}},
		{"if a b:\n    c = 1\nd = 2\n", "", 1, []string{Gap, "Assign"}},
		{"  a = 1\nb = 2\n", "indented", 1, []string{Gap, "Assign"}},
		{"f() = 1\nb = 2\n", "cannot be assigned to", 1, []string{Gap, "Assign"}},
		{"x = f'{a'\nb = 2\n", "", 1, []string{Gap, "Assign"}},
		{"try: pass\nb = 2\n", "without except", 2, []string{Gap, "Assign"}},
	} {
		m, gaps := read(t, c.src)
		var kinds []string
		for _, n := range m.List("body") {
			kinds = append(kinds, n.Kind)
		}
		if len(gaps) == 0 || gaps[0].Line != c.line || !strings.Contains(gaps[0].Error(), c.gap) ||
			strings.Join(kinds, " ") != strings.Join(c.rest, " ") {
			t.Errorf("%q: %v, gaps %v", c.src, kinds, gaps)
		}
	}
	m, _ := read(t, "if a b:\n    c = 1\n    d = 2\n")
	if body := m.List("body")[0].List("body"); len(body) != 2 || body[0].Kind != "Assign" {
		t.Errorf("what is indented under a gap: %v", body)
	}
}

// hostile are texts whose cost must stay in proportion to their length.
var hostile = []string{
	strings.Repeat("(", 100000), strings.Repeat("[x for x in ", 50000), "x = " + strings.Repeat("-", 100000) + "1",
	"x = " + strings.Repeat("a+", 100000) + "a", "x = a" + strings.Repeat(".b", 100000), strings.Repeat("f'{", 30000),
	"x = " + strings.Repeat("not ", 100000) + "a", strings.Repeat("'''\n", 99999), strings.Repeat("(\n", 100000),
	strings.Repeat("if a:\n", 1000), "if a: pass\n" + strings.Repeat("elif a: pass\n", 50000),
	strings.Repeat("with (", 50000), strings.Repeat("match (", 50000), strings.Repeat("lambda:", 100000),
	strings.Repeat("x=f(", 50000), strings.Repeat("{**", 50000), "x = a" + strings.Repeat(" if b else c", 100000),
	strings.Repeat("f'{x:{", 20000), strings.Repeat("\\\n", 100000), "\xef\xbb\xbf" + strings.Repeat("\f \t", 50000),
}

func TestHostile(t *testing.T) {
	for _, src := range hostile {
		m, _, err := Parse([]byte(src))
		if err != nil {
			t.Fatal(err)
		}
		if m.Walk(func(n *Node) bool { return n.depth <= maxDepth }); len(Masked([]byte(src))) != len(src) {
			t.Errorf("%.20q: what is masked has another length", src)
		}
	}
	if _, _, err := Parse([]byte("a = 1\nb\x00 = 2\n")); err == nil || !strings.Contains(err.Error(), "line 2 has a byte 0") {
		t.Errorf("a byte 0: %v", err)
	}
	if _, _, err := Parse(make([]byte, MaxBytes+1)); err == nil {
		t.Error("a program of any size is read")
	}
}

// FuzzParse: no text crashes the parser, places lie within the text and children within the depth, and every
// expression that stands in a program is one by itself.
func FuzzParse(f *testing.F) {
	for _, src := range hostile {
		f.Add(src[:min(len(src), 200)])
	}
	f.Add("x = f'{a!r:>{b}}' if c else {**d}\nmatch x:\n    case [1, *_]: pass\n")
	f.Fuzz(func(t *testing.T, src string) {
		m, gaps, err := Parse([]byte(src))
		if err != nil {
			return
		}
		for _, g := range gaps {
			if g.Line < 1 || g.Why == "" {
				t.Errorf("a gap says %v", g)
			}
		}
		m.Walk(func(n *Node) bool {
			if n.Start < 0 || n.End < n.Start || n.End > len(src) || n.Line < 1 || n.depth > maxDepth+1 {
				t.Errorf("%s at %d to %d, line %d, of %d bytes", n.Kind, n.Start, n.End, n.Line, len(src))
			}
			return true
		})
		if masked := Masked([]byte(src)); len(masked) != len(src) {
			t.Errorf("%d bytes are masked to %d", len(src), len(masked))
		}
	})
}
