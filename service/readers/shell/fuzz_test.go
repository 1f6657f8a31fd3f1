package shell

import (
	"io/fs"
	"testing"
)

// FuzzRead reads scripts that may run themselves. Whatever stands somewhere literally stands there, and what is
// sure does not change with what the environment has.
func FuzzRead(f *testing.F) {
	for _, script := range []string{
		"A=1\nfor i in a b; do (cd $i && python train.py --b=$A) || break; done",
		"f() { local x=${1:-4}; case $x in 4) g;; *) return;; esac; }\nf \"$@\"; echo $((x++))",
		"cat > c <<EOF\n$A\nEOF\nsource c; bash -c \"p ${a[@]:1}\" <<< x &> log",
		"while [ $# -gt 0 ]; do shift; continue 2; done\nset -- {1..9} \"${x%%a}\"\neval p '$1'",
	} {
		f.Add(script, "x")
	}
	f.Fuzz(func(t *testing.T, script, value string) {
		read := func(env map[string]string) (*Script, error) {
			return Read(t.Context(), Input{Name: "s", Text: []byte(script), Dir: "/", Env: env,
				ReadFile: func(name string) ([]byte, error) {
					if name == "/s" {
						return []byte(script), nil
					}
					return nil, fs.ErrNotExist
				}})
		}
		s, err := read(nil)
		if err != nil {
			return
		}
		for _, c := range s.Commands {
			for _, w := range c.Words {
				for _, p := range w.Pieces {
					if source := s.Sources[p.At.Source].Text; !p.At.IsZero() && p.At.End-p.At.Start == len(p.Text) &&
						p.Certainty == Sure && string(source[p.At.Start:p.At.End]) != p.Text {
						t.Errorf("%q stands at %+v, where %q is", p.Text, p.At, source[p.At.Start:p.At.End])
					}
				}
			}
			if _, err := s.Open(&c, "f"); err == nil && len(s.Writes) == 0 {
				t.Error("a file that is not there was read")
			}
		}
		other, err := read(map[string]string{"A": value, "x": value})
		if err != nil || len(other.Commands) != len(s.Commands) {
			return
		}
		for i, c := range s.Commands {
			o := other.Commands[i]
			if c.Runs == Surely && c.Words[0].Certainty == Sure && o.Runs == Surely && o.Words[0].Certainty == Sure &&
				c.At == o.At && c.Words[0].Text != o.Words[0].Text {
				t.Errorf("surely %q, and surely %q with another environment", c.Words[0].Text, o.Words[0].Text)
			}
		}
	})
}
