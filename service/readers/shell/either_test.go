package shell

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ways writes the words of a command, and those for each way of its decisions.
func ways(c Command) string {
	line := func(words []Word) string {
		var all []string
		for _, w := range words {
			text := map[Certainty]string{Sure: "", Assumed: "~", Unknown: "?"}[w.Certainty] + w.Text
			if w.Many {
				text += "…"
			}
			all = append(all, text)
		}
		return strings.Join(all, " ")
	}
	text := line(c.Words)
	for _, v := range c.Variants {
		text += " | " + line(v)
	}
	return text
}

// Words that the script fixes but for a decision of the environment's are known for each way of it, and what is empty
// unless the environment says otherwise is still there.
func TestEitherWay(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"two branches", "if [ $Q ]; then b=4; else b=8; fi\np --n=$b x", "p ?--n=… x | p --n=4 x | p --n=8 x"},
		{"one branch", "e=\n[ \"${Q:-0}\" = 1 ] && e='a=1 b=2'\np c $e", "p c ~… | p c a=1 b=2 | p c"},
		{"double brackets", "e=\n[[ -n $Q ]] && e=a\np c $e", "p c ?… | p c a | p c"},
		{"a case", "case $Q in s) b=1;; m) b=2;; *) b=3;; esac\np $b", "p ?… | p 1 | p 2 | p 3"},
		{"a case that may match nothing", "case $Q in s) b=1;; m) b=2;; esac\np $b", "p ?…"},
		{"of one decision", "if $q; then a=1 b=1; else a=2 b=2; fi\np $a $b", "p ?… ?… | p 1 1 | p 2 2"},
		{"of two decisions", "if $q; then a=1; else a=2; fi\nif $r; then b=3; else b=4; fi\np $a $b",
			"p ?… ?… | p 1 3 | p 1 4 | p 2 3 | p 2 4"},
		{"through another variable", "if $q; then a=1; else a=2; fi\nb=--n=$a\np $b x", "p ?--n=… x | p --n=1 x | p --n=2 x"},
		{"a list", "a=(x)\nif $q; then a+=(--y 'z z'); fi\np \"${a[@]}\" e", "p ?… e | p x --y z z e | p x e"},
		{"set or not", "p ${Q:+--f g} ${Q+h} e", "p ~… ~… e | p e | p --f g h e"},
		{"empty or not", "p ${E:-} ${E-} \"${E:-}\" e", "p ~… ~… ~ e"},
		{"an argument", "p ${1:-} $1 \"$@\"", "p ~… ?… ?…"},
		{"assigned if empty", ": \"${E:=}\"\np $E e", "p ~… e"},
		{"an empty one in a list", "a=(x ${E:-})\np \"${a[@]}\"", "p x ~…"},
		{"an empty one beside a text", "p c.yaml${E:-}", "p ~c.yaml"},
		{"fixed", "e=''\np a ${e:-} $e", "p a"},
		{"operators", "if $q; then a=x.py; else a=y.py; fi\np ${a%.py} ${#a}", "p ?… ?… | p x 4 | p y 4"},
		{"a sum", "if $q; then a=1; else a=2; fi\np $((a * 2))", "p ? | p 2 | p 4"},
		{"too many", strings.Repeat("if $q; then a=$a-; fi\n", 4) + "a=1$a\np $a", "p ?1…"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			script := read(t, tt.script, nil)
			if diff := cmp.Diff(tt.want, ways(script.Commands[len(script.Commands)-1])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A script of very many decisions takes as long as its length asks for.
func TestEitherWayBounded(t *testing.T) {
	const three = "if $q; then a=1; fi\nif $q; then b=2; else b=3; fi\nif $q; then c=2; else c=4; fi\n"
	many := func(n int, line func(i int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(line(i) + "\n")
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"a list":  "a=()\n" + strings.Repeat("if $q; then a+=(1); fi\n", 3) + strings.Repeat("a+=(x)\n", 4000),
		"a value": "a=x\n" + three + strings.Repeat("a=\"$a$b$c\"\n", 5000),
		"words":   three + strings.Repeat("p "+strings.Repeat("$a $b $c ", 200)+"\n", 50),
		"branches": "a=''\n" + many(1500, func(i int) string {
			return fmt.Sprintf("if [ \"$Q%d\" ]; then a=\"$a x\"; v%d=1; else v%d=2; fi", i%7, i%50, i%50)
		}) + "p $a $v1 $v2\n",
		"arms": "case $q in\n" + many(9000, func(i int) string { return fmt.Sprintf("k%d) a=%d;;", i, i) }) + "esac\np $a\n",
	} {
		r := &reader{ctx: t.Context(), script: &Script{}, functionsRun: map[string]bool{}}
		file, err := r.parse(name, []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.run(newState(Input{}), file)
		if r.spare > 2*maxSpare {
			t.Errorf("%s: %d steps for ways, at most %d are meant", name, r.spare, maxSpare)
		}
		for _, c := range r.script.Commands {
			if len(c.Variants) > maxWays {
				t.Errorf("%s: %d ways of a command", name, len(c.Variants))
			}
		}
	}
}
