package decode

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// registry is in the shapes that registries of configurations take: a function that puts one together, others that
// change it, one with a parameter, and things that cannot be followed.
const registry = `
from somewhere import Trainer, Training, Policy, Wrap, helper

LENGTH = 2 ** 11

def base() -> Trainer.Config:
    """def other() -> Trainer.Config: in a string"""
    spec = model("8B", backend="flex")
    return Trainer.Config(
        spec=spec,  # a comment with a ) in it
        training=Training(tokens=8 * LENGTH, length=LENGTH),
        policy=Policy.Config(),
        filters=(lambda x: x is not None,),
        off=None,
    )

def larger() -> Trainer.Config:
    config = base()
    config.training.tokens = 16 * LENGTH
    config.policy = None
    config.compile.enable = True
    config.spec = model("70B", converters=[Float8.Config(only=["head"]), Wrap(1)])
    return config

def with_parameter(backend: str = "sdpa", *, length=1024):
    return Trainer.Config(backend=backend, training=Training(length=length))

def uses_it() -> Trainer.Config:
    return with_parameter(backend="varlen")

def unfollowed(debug: bool = False) -> Trainer.Config:
    config = base()
    if helper.debug():
        config.training.tokens = 1
    helper(config)
    config.callbacks.append(1)
    return config

def again() -> Trainer.Config:
    return again()

def _hidden() -> Trainer.Config:
    return base()
`

func TestBuild(t *testing.T) {
	tests := []struct {
		function string
		want     string
	}{
		{"base", `
spec.0 = 8B
spec.backend = flex
training.tokens = 16384
training.length = 2048
filters ? is not a plain value
off = <nil>
() Trainer.Config
(policy) Policy.Config
(spec) model
(training) Training`},
		{"larger", `
spec.0 = 70B
spec.converters = [Float8.Config Wrap]
spec.converters.0.only = [head]
spec.converters.1.0 = 1
training.tokens = 32768
training.length = 2048
policy = <nil>
filters ? is not a plain value
off = <nil>
compile.enable = true
() Trainer.Config
(compile) 
(spec) model
(spec.converters.0) Float8.Config
(spec.converters.1) Wrap
(training) Training`},
		{"uses_it", `
backend = varlen
training.length = 1024
() Trainer.Config
(training) Training`},
		{"unfollowed", `
spec.0 = 8B
spec.backend = flex
training.tokens ? is 1 or 16384: what line 33 goes by is not known
training.length = 2048
filters ? is not a plain value
off = <nil>
helper(config) ? is changed at line 35 in a way that cannot be followed without running it
config.callbacks.append(1) ? is changed at line 36 in a way that cannot be followed without running it
() Trainer.Config
(policy) Policy.Config
(spec) model
(training) Training`},
		{"again", ""},
	}
	for _, test := range tests {
		t.Run(test.function, func(t *testing.T) {
			built, ok, err := Build("registry.py", []byte(registry), test.function)
			if err != nil || !ok {
				t.Fatalf("built %v, %v", ok, err)
			}
			if d := cmp.Diff(strings.TrimPrefix(test.want, "\n"), shown(built)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	if _, ok, err := Build("registry.py", []byte(registry), "nobody"); ok || err != nil {
		t.Errorf("a function that is not there: %v, %v", ok, err)
	}
}

// shown is what was put together, a line each.
func shown(b *Built) string {
	var lines []string
	for _, key := range b.Settings.Keys() {
		v, _ := b.Settings.Peek(key)
		if v.Unknown != "" {
			lines = append(lines, key+" ? "+v.Unknown)
			continue
		}
		lines = append(lines, fmt.Sprintf("%s = %v", key, v.Any))
	}
	for _, v := range b.Loose {
		lines = append(lines, v.Text+" ? "+v.Unknown)
	}
	var calls []string
	for path, v := range b.Calls {
		calls = append(calls, fmt.Sprintf("(%s) %s", path, v.String()))
	}
	slices.Sort(calls)
	return strings.Join(append(lines, calls...), "\n")
}

// TestBuildSaysWhere holds the place of a value to the text that stands there.
func TestBuildSaysWhere(t *testing.T) {
	built, _, err := Build("registry.py", []byte(registry), "larger")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"training.tokens": "16 * LENGTH", "training.length": "LENGTH",
		"spec.0": "70B"} {
		v, _ := built.Settings.Peek(key)
		if got := registry[v.Origin.At.Start:v.Origin.At.End]; got != want {
			t.Errorf("%s stands at %q, want %q", key, got, want)
		}
	}
}

func TestBuilders(t *testing.T) {
	want := []string{"base", "larger", "uses_it", "unfollowed", "again"}
	if d := cmp.Diff(want, Builders([]byte(registry), "Trainer.Config")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// FuzzBuild holds reading a registry to its limits: it ends, and puts no more together than it may.
func FuzzBuild(f *testing.F) {
	f.Add([]byte(registry), "larger")
	f.Add([]byte("def a():\n    return a(x=a(), y=[a(), a()])\n"), "a")
	f.Add([]byte("def a():\n    c = A(b=B(c=[C(), 1 if x else 2]))\n    c.b.c.d = c\n    return replace(c, b=c)\n"),
		"a")
	f.Add([]byte("def a():\n    c = A()\n"+strings.Repeat("    c = A(x=c, y=c)\n", 40)+"    return c\n"), "a")
	f.Fuzz(func(t *testing.T, text []byte, function string) {
		built, ok, err := Build("f.py", text, function)
		if err != nil || !ok {
			return
		}
		if n := built.Settings.Len() + len(built.Calls); n > 20000 {
			t.Errorf("%d values", n)
		}
	})
}
