package shell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// show writes what a script does on one line a command: how sure it is that it runs, and its words, with ~ in front of
// assumed and ? in front of unknown ones.
func show(s *Script) string {
	var b strings.Builder
	for _, c := range s.Commands {
		fmt.Fprintf(&b, "%s", map[Runs]string{Surely: "yes", Maybe: "maybe", Never: "never"}[c.Runs])
		if c.Runs == Maybe && c.Likely {
			b.WriteString("(likely)")
		}
		if c.Guarded != "" {
			b.WriteString(" guarded")
		}
		if c.Unread != "" {
			b.WriteString(" unread")
		}
		for _, w := range c.Words {
			b.WriteString(" " + map[Certainty]string{Sure: "", Assumed: "~", Unknown: "?"}[w.Certainty] + w.Text)
			if w.Many {
				b.WriteString("…")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// files is a directory in memory, whose names begin with /job/.
type files map[string]string

func (f files) read(name string) ([]byte, error) {
	text, ok := f[strings.TrimPrefix(name, "/job/")]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return []byte(text), nil
}

func read(t *testing.T, script string, f files) *Script {
	t.Helper()
	s, err := Read(t.Context(), Input{Name: "job.sh", Text: []byte(script), Dir: "/job", ReadFile: f.read})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWords(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"plain", `p a 'b c' "d $x" e\ f`, `yes p a b c ?d  e f`},
		{"assigned", "x=4 y=$x\np --n=$y \"$y$x\" ${x}0", "yes p --n=4 44 40"},
		{"split", "x='a  b'\np $x \"$x\" z$x", "yes p a b a  b za b"},
		{"empty", "x=\np $x \"$x\" ''", "yes p  "},
		{"unset", "unset x\np $x ${x:-4} ${x-5} ${x:+6}", "yes p 4 5"},
		{"environment", "p $x ${x:-4} ${x:+6} \"${x:-a b}\" ${x:-a b}", "yes p ?… ~4 ~… ~a b ~a ~b"},
		{"set if unset", "x=1\n: ${x:=2} ${y:=3}\np $x $y", "yes p 1 ~3"},
		{"alternative", "x=1\np ${x:+y} ${x+z}", "yes p y z"},
		{"operators", "x=a/b.tar.gz\np ${x##*/} ${x%%.*} ${x%.*} ${#x} ${x/b/c} ${x:2:1} ${x^^}",
			"yes p b.tar.gz a/b a/b.tar 10 a/c.tar.gz b A/B.TAR.GZ"},
		{"operators on something unknown", "p ${x##*/} ${#x} ${x:2}", "yes p ?… ?… ?…"},
		{"lists", "a=(1 '2 3' $q)\na+=(4)\np \"${a[@]}\" ${a[1]} \"${a[*]}\" ${#a[@]} ${a[0]} $a",
			"yes p 1 2 3 ?… 4 2 3 ?1 2 3  4 ?… 1 1"},
		{"an empty list", "a=()\np \"${a[@]}\" x", "yes p x"},
		{"sums", "n=3\np $((n * 2 + 1)) $((n > 2 ? 8 : 9)) $(($n ** 2)) $((q + 1)) $((010))", "yes p 7 8 9 ? ?"},
		{"counting", "n=1\n((n++))\nlet n+=3 m=n*2\np $n $m", "yes p 5 10"},
		{"substitution", "x=$(date)\np $x \"$x\" `date`", "yes date\nyes date\nyes p ?… ? ?…"},
		{"braces", "p {a,b}c x{1..3}", "yes p ac bc x1 x2 x3"},
		{"patterns", "p *.py \"*\" ~/x", "yes p ?*.py… * ?~/x"},
		{"in front", "A=1 B=$A p $A", "yes p ?…"},
		{"arguments", "p $1 $# ${2:-3} \"$@\"", "yes p ?… ?… ~3 ?…"},
		{"set words", "set -- a b c\nshift\np $1 $# \"$@\" ${@:2}", "yes p b 2 b c c"},
		{"local", "f() { local x=2; p $x $1; }\nx=1\nf 7\np $x", "yes p 2 7\nyes p 1"},
		{"global", "f() { x=2; }\nx=1\nf\np $x", "yes p 2"},
		{"in a subshell", "x=1\n(x=2; p $x)\np $x", "yes p 2\nyes p 1"},
		{"in a pipe", "x=1\ntrue | x=2\necho 3 | read x\np $x", "yes p 1"},
		{"read", "x=1\nread x y <f\np $x", "yes p ?…"},
		{"printf and mapfile", "printf -v x 8\nmapfile -t y <f\np $x ${y[0]}", "yes p ?… ?…"},
		{"eval", "eval x=8\neval \"$y\"\np $x", "yes guarded p ?…"},
		{"eval of what is known", "n=x\neval $n=8\np $x", "yes p 8"},
		{"source", "x=1\nsource setup.sh\np $x\nx=2\np $x", "yes p ?…\nyes p 2"},
		{"an environment's script", "x=1\nsource ~/venv/bin/activate\np $x", "yes p 1"},
		{"attributes", "declare -i x=5+3\ndeclare -A m\nm[a]=1\np $x ${m[a]}", "yes p ?… ?…"},
		{"another name", "declare -n r=x\nx=1\nr=2\np $x", "yes p ?…"},
		{"read-only", "readonly x=1\nx=2\np $x\nreadonly y=1\np $y", "yes p ?…\nyes p 1"},
		{"IFS", "IFS=,\nx=a,b\np $x", "yes p ?a,b…"},
		{"a line that goes on", "p a \\\n  b \\\n c", "yes p a b c"},
		{"comments", "p a # b\n# p c", "yes p a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, strings.TrimSuffix(show(read(t, tt.script, nil)), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRuns(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"in a row", "a\nb; c & wait", "yes a\nyes b\nyes c"},
		{"if of something", "if grep -q x f; then a; else b; fi\nc",
			"yes guarded grep -q x f\nmaybe a\nmaybe b\nyes c"},
		{"if of a constant", "m=full\nif [ $m = lora ]; then a; elif [[ $m == fu* ]]; then b; else c; fi",
			"never a\nyes b\nnever c"},
		{"if of an assumption", "m=${M:-full}\nif [ $m = lora ]; then a; x=1; else b; x=2; fi\np $x",
			"maybe a\nmaybe(likely) b\nyes p ~2"},
		{"if on numbers", "n=4\nif ((n > 2)) && [ $n -lt 8 ]; then a; fi\nif [[ -z $n || $n -eq 5 ]]; then b; fi",
			"yes a\nnever b"},
		{"a value from two branches", "if x; then n=4; else n=8; fi\np $n", "yes guarded x\nyes p ?…"},
		{"the same value from both", "if x; then n=4; else n=4; fi\np $n", "yes guarded x\nyes p 4"},
		{"case", "case $1 in a) n=1; a;; *) n=2; b;; esac\np $n", "maybe a\nmaybe b\nyes p ?…"},
		{"case of a constant", "m=b\ncase $m in a) a;; b|c) b;; *) c;; esac", "never a\nyes b\nnever c"},
		{"and", "a && b\nmkdir -p x && c\n[ -f y ] && d\ntrue && e\nfalse && f",
			"yes a\nmaybe b\nyes mkdir -p x\nyes c\nmaybe d\nyes e\nnever f"},
		{"or", "a || b\nc || exit 1\nd || { echo no; exit 2; }\ne", "yes guarded a\nmaybe b\nyes c\nyes d\nyes e"},
		{"or that ends well", "a || exit 0\nb", "yes guarded a\nmaybe b"},
		{"a check in front", "if [ -z \"$1\" ]; then echo usage; exit 1; fi\na", "yes a"},
		{"nothing to do", "if [ -f done ]; then exit 0; fi\na", "maybe a"},
		{"after the end", "a\nexit\nb", "yes a\nnever b"},
		{"after exec", "exec a\nb", "yes exec a\nnever b"},
		{"exec for a redirection", "exec > log\nb", "yes b"},
		{"not", "if ! a; then b; fi", "yes guarded a\nmaybe b"},
		{"a function", "f() { a; }\nb\nf", "yes b\nyes a"},
		{"a function that is gone", "f() { a; }\nunset -f f\nf\nb", "maybe b"},
		{"failures that are let pass", "set +e\na\nset -e\nb", "yes guarded a\nyes b"},
		{"a function that nobody calls", "f() { a; }\nb", "yes b\nnever a"},
		{"a function that somebody may call", "f() { a; }\n\"$@\"", "yes ?…\nmaybe a"},
		{"a function that is given on", "f() { a; }\nxargs -n1 f", "yes xargs -n1 f\nmaybe a"},
		{"return", "f() { if x; then return; fi; a; }\nf\nb", "yes guarded x\nmaybe a\nyes b"},
		{"a loop over words", "for n in 8 4; do a $n; done\nb $n",
			"maybe(likely) guarded a 8\nmaybe(likely) guarded a 4\nyes b 4"},
		{"a loop that ends early", "for n in 8 4; do a $n && break; done\nb $n",
			"maybe(likely) guarded a 8\nmaybe guarded a 4\nyes b ?…"},
		{"a loop over anything", "for n in $x; do a $n; done\nb", "maybe guarded a ?…\nyes b"},
		{"a loop over nothing", "l=()\nfor n in ${l[@]}; do a $n; done", "never a ?…"},
		{"while", "while x; do a; n=2; done\nb $n", "maybe guarded x\nmaybe guarded a\nyes b ?…"},
		{"while that counts", "n=0\nwhile [ $n -lt 2 ]; do a $n; ((n++)); done",
			"maybe(likely) guarded a 0\nmaybe(likely) guarded a 1"},
		{"while over arguments", "set -- -b 8 -x\nwhile [ $# -gt 0 ]; do case $1 in -b) b=$2; shift;; esac; " +
			"shift; done\np $b", "yes p 8"},
		{"for ever", "while true; do a && break; done\nb", "maybe guarded a\nyes b"},
		{"for ((", "for ((i=0;i<3;i++)); do a $i; done", "maybe guarded a ?…"},
		{"the status", "a\nif [ $? -ne 0 ]; then b; fi", "yes guarded a\nmaybe guarded b"},
		{"the status, shown", "a\necho \"ended with $?\"\nexit $?", "yes a"},
		{"a trap", "trap 'b' ERR\na", "maybe guarded b\nyes guarded a"},
		{"a harmless trap", "trap 'rm -f x' EXIT\na", "maybe rm -f x\nyes a"},
		{"time", "time a | tee log", "yes a\nyes tee log"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, strings.TrimSuffix(show(read(t, tt.script, nil)), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestScriptsWithinScripts(t *testing.T) {
	f := files{
		"train.sh": "B=$1\np --b=$B $LR $X\n", "env.sh": "LR=3\nif [ -n \"$Q\" ]; then return; fi\n",
		"loop.sh": "bash loop.sh\n", "prog.sh": "#!/usr/bin/python\nx = 1\n",
	}
	for _, tt := range []struct{ name, script, want string }{
		{"bash FILE", "export LR=2\nX=1\nbash train.sh 8", "yes bash train.sh 8\nyes p --b=8 2 ?…"},
		{"./FILE", "srun -n 1 ./train.sh 8", "yes srun -n 1 ./train.sh 8\nyes p --b=8 ?… ?…"},
		{"bash -c", "srun bash -c 'p $0 $1' x 4", "yes srun bash -c p $0 $1 x 4\nyes p ?… 4"},
		{"bash with a here-document", "B=4\nbash <<EOF\np $B \\$Q\nEOF", "yes bash\nyes p 4 ?…"},
		{"source", "source env.sh\np $LR", "yes p 3"},
		{"a file that is not there", "bash none.sh", "yes unread bash none.sh"},
		{"without end", "bash loop.sh", "yes bash loop.sh\nyes bash loop.sh\nyes bash loop.sh\nyes bash loop.sh\nyes " +
			"bash loop.sh\nyes unread bash loop.sh"},
		{"another language", "./prog.sh", "yes unread ./prog.sh"},
		{"text from outside", "bash -c \"$X\"", "yes guarded unread bash -c ?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, strings.TrimSuffix(show(read(t, tt.script, f)), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	f := files{"c.py": "old", "d/c.py": "inner", "gen.py": "write('c.py')", "other.py": "write('d.py')"}
	for _, tt := range []struct{ name, script, want string }{
		{"untouched", "p", "old"},
		{"another directory", "cd d\np", "inner"},
		{"an unknown directory", "cd $X\np", "error: nobody knows"},
		{"a here-document", "B=4\ncat > c.py <<EOF\nbatch = $B\nEOF\np", "batch = 4\n"},
		{"a quoted here-document", "cat > c.py <<'EOF'\nbatch = $B\nEOF\np", "batch = $B\n"},
		{"a here-document with something unknown", "cat > c.py <<EOF\nbatch = $B\nEOF\np", "rewritten"},
		{"tee", "tee c.py <<EOF\nx\nEOF\np", "x\n"},
		{"echo", "echo 'batch = 4' > c.py\np", "rewritten"},
		{"added", "echo x >> c.py\np", "rewritten"},
		{"sed", "sed -i s/1/2/ c.py\np", "rewritten"},
		{"sed to somewhere else", "sed s/1/2/ c.py > e.py\np", "old"},
		{"cp", "cp e.py c.py\np", "rewritten"},
		{"mv", "mv x /job/\np", "rewritten"},
		{"a program", "python make.py --out=c.py\np", "rewritten"},
		{"another program", "python make.py --out=e.py\np", "old"},
		{"a program that mentions it", "python gen.py\np", "rewritten"},
		{"a program that does not", "python other.py\np", "old"},
		{"code on the command line", "python -c 'open(\"c.py\", \"w\")'\np", "rewritten"},
		{"code that only looks", "python -c 'import torch; print(torch.__version__)'\np", "old"},
		{"code in a here-document", "python - <<EOF\nopen(x, 'w')\nEOF\np", "rewritten"},
		{"dd", "dd if=x of=c.py\np", "rewritten"},
		{"awk", "awk -i inplace '{print}' c.py\np", "rewritten"},
		{"git", "git pull\np", "rewritten"},
		{"git that only looks", "git log -1\np", "old"},
		{"afterwards", "p\nsed -i s/1/2/ c.py", "old"},
		{"in a branch", "if x; then cp e.py c.py; fi\np", "rewritten"},
		{"a log with a strange name", "echo x > logs/$J.log\np", "old"},
		{"any name", "echo x > $J\np", "rewritten"},
		{"to a number", "p 2>&1 >/dev/null", "old"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := read(t, tt.script, f)
			for i := range s.Commands {
				if c := &s.Commands[i]; c.Words[0].Text == "p" {
					text, err := s.Open(c, "c.py")
					got := string(text)
					if rewritten := (*RewrittenError)(nil); errors.As(err, &rewritten) {
						got = "rewritten"
					} else if err != nil {
						got = "error: " + err.Error()
					}
					if got != tt.want && (!strings.HasPrefix(tt.want, "error") || !strings.HasPrefix(got, tt.want)) {
						t.Errorf("%q, want %q", got, tt.want)
					}
					return
				}
			}
			t.Error("no command p")
		})
	}
}

func TestUnwrap(t *testing.T) {
	for _, tt := range []struct{ script, want string }{
		{"srun --ntasks 4 -u env A=1 python train.py", "python train.py"},
		{"singularity exec --nv -B /data img.sif bash x", "bash x"},
		{"timeout -k 10 60 nohup nice -n 5 python t.py", "python t.py"},
		{"uv run --with torch python t.py", "python t.py"},
		{"exec torchrun t.py", "torchrun t.py"},
		{"conda activate x", "conda activate x"},
		{"srun $OPTIONS python t.py", "python t.py"},
		{"nohup $OPTIONS", "?…"},
		{"singularity exec --nv $IMAGE python t.py", "python t.py"},
		{"singularity exec $NV -B /data img.sif python t.py", "python t.py"},
		{"docker run --rm -v /a:/b -e A=1 img python t.py", "python t.py"},
		{"docker exec -it c python t.py", "python t.py"},
		{"mpirun -np 4 -mca btl tcp python t.py", "python t.py"},
	} {
		c := read(t, tt.script, nil).Commands[0]
		c.Words, _ = c.Unwrap()
		c.Unread = ""
		if got := strings.TrimSpace(show(&Script{Commands: []Command{c}})); got != "yes "+tt.want {
			t.Errorf("%s: %s, want %s", tt.script, got, tt.want)
		}
	}
}

// Every piece that stands somewhere literally stands there.
func TestPlaces(t *testing.T) {
	const script = "#!/bin/bash\nB=4 # why\nARGS=\"--x 1 --batch $B\"\nsrun python t.py $ARGS --size='16' " +
		"\"$B\"\nbash -c 'q --n 9'\n"
	s := read(t, script, nil)
	seen := ""
	for _, c := range s.Commands {
		for _, w := range c.Words {
			for _, p := range w.Pieces {
				if p.At.IsZero() {
					continue
				}
				source := string(s.Sources[p.At.Source].Text)
				if got := source[p.At.Start:p.At.End]; got != p.Text {
					t.Errorf("%q stands at %+v, where %q is", p.Text, p.At, got)
				}
				if p.Text == "4" || p.Text == "9" {
					seen += fmt.Sprintf("%s at %d:%d ", p.Text, p.At.Line, p.At.Column)
				}
			}
		}
	}
	if seen != "4 at 2:3 4 at 2:3 9 at 5:16 " {
		t.Errorf("seen: %s", seen)
	}
}

func TestEnvironment(t *testing.T) {
	s := read(t, "export A=1\nB=2\nexport C\nC=3\nD=4 p\nsource x.sh\np", nil)
	c := s.Commands[0]
	got := ""
	for _, name := range []string{"A", "B", "C", "D"} {
		w, ok := c.Lookup(name)
		got += fmt.Sprintf("%s=%s %v ", name, w.Text, ok)
	}
	if got != "A=1 true B= false C=3 true D=4 true " || c.OpenEnv != "" || s.Commands[1].OpenEnv == "" {
		t.Errorf("%s, open %q and %q", got, c.OpenEnv, s.Commands[1].OpenEnv)
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct{ name, script, want string }{
		{"python", "#!/usr/bin/env python3\nx = 1", "not a shell script"},
		{"broken", "if true; then", "syntax error"},
		{"deep", strings.Repeat("(", 300), "more than is read"},
		{"long", strings.Repeat("#", 300<<10), "more than is read"},
		{"a bomb", "a=xxxxxxxxxxxxxxxx\n" + strings.Repeat("a=$a$a$a$a\n", 30), "more than is read"},
		{"many", "f() { p; p; p; p; g; g; g; }; g() { h; h; h; h; }; h() { i; i; i; i; i; }; i() { p; p; p; p; p; p; " +
			"p; p; p; p; p; p; p; p; p; p; p; p; }\n" + strings.Repeat("f\n", 20), "more than is read"},
	} {
		_, err := Read(t.Context(), Input{Text: []byte(tt.script)})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

// TestPartial: a text of which parts are known only when it runs is read only where that is asked for; what stood
// within single quotes is no text that is known.
func TestPartial(t *testing.T) {
	const script = "HEAD=$(hostname)\nRUN=\"p --head $HEAD:60 --batch 4 --name '$HEAD/x' --out $OUT/run\"\nbash -c " +
		"\"$RUN --rank \\$RANK\"\n"
	for _, partial := range []bool{false, true} {
		s, err := Read(context.Background(), Input{Name: "x.sh", Text: []byte(script), Dir: "/w", Partial: partial})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range s.Commands {
			if len(c.Words) > 0 && c.Words[0].Text == "p" {
				for _, w := range c.Words {
					if w.Certainty == Sure {
						got = append(got, w.Text)
					} else {
						got = append(got, "?"+w.Text)
					}
				}
			}
		}
		want := ""
		if partial {
			want = "p --head ?:60 --batch 4 --name ? --out ?/run --rank ?"
		}
		if strings.Join(got, " ") != want {
			t.Errorf("partial %v: %q, want %q", partial, got, want)
		}
	}
}

// TestManyPieces: a value of very many pieces of which one is not known keeps the others.
func TestManyPieces(t *testing.T) {
	script := "A=1\nX=$(hostname)\nV=\"$X" + strings.Repeat(" $A", 200) + "\"\np $V\n"
	s, err := Read(context.Background(), Input{Name: "x.sh", Text: []byte(script), Dir: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	sure := 0
	for _, w := range s.Commands[len(s.Commands)-1].Words {
		if w.Certainty == Sure && w.Text == "1" {
			sure++
		}
	}
	if sure != 200 {
		t.Errorf("%d of 200 words are known", sure)
	}
}

// A placeholder is a word, and a redirection stays one.
func TestPlaceholders(t *testing.T) {
	for script, want := range map[string]string{
		"python t.py --model <your-model> --n 4":   "python t.py --model <your-model> --n 4",
		"python t.py --model <your model>":         "python t.py --model <your model>",
		"python t.py --model=<your-model> x":       "python t.py --model=<your-model> x",
		"python t.py --data \"<path/to/data>\"":    "python t.py --data <path/to/data>",
		"python t.py <config> \\\n  --n 4":         "python t.py <config> --n 4",
		"python t.py '--eos=<eos>' --pad '<pad>'":  "python t.py --eos=<eos> --pad <pad>",
		"python t.py <in >out":                     "python t.py",
		"python t.py <a.yaml> b.yaml":              "python t.py",
		"python t.py 2>&1 < /dev/null":             "python t.py",
		"python t.py --n $((1 < 2)) --m <(cat x) ": "python t.py --n 1 --m ?",
	} {
		s := read(t, script, nil)
		c := s.Commands[len(s.Commands)-1]
		for _, one := range s.Commands {
			if one.Words[0].Text == "python" {
				c = one
			}
		}
		if got := strings.TrimSpace(show(&Script{Commands: []Command{c}})); got != "yes "+want {
			t.Errorf("%s: %s, want %s", script, got, want)
		}
	}
	s := read(t, "envsubst <a.yaml> b.yaml\ncat > c.yaml <<EOF\npad: <pad>\nEOF\n", nil)
	if len(s.Writes) != 2 {
		t.Errorf("%d files are written, want b.yaml and c.yaml", len(s.Writes))
	}
	text, err := s.Open(&Command{writes: 2}, "/job/c.yaml")
	if string(text) != "pad: <pad>\n" {
		t.Errorf("c.yaml has %q, %v", text, err)
	}
}
