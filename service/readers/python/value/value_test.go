package value_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/reliability/process"
	"github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/python/value"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// world knows a command line, an environment and a file.
func world(words, environment, file map[string]string) value.World {
	of := func(m map[string]string, name string) (setting.Value, bool) {
		text, ok := m[name]
		return setting.Value{Any: text, Text: text, Origin: setting.Origin{Kind: setting.Argument, Key: name}}, ok
	}
	return value.World{
		Word: func(names ...string) (setting.Value, bool) {
			for _, name := range names {
				if v, ok := of(words, name); ok {
					return v, true
				}
			}
			return setting.Value{}, false
		},
		Env: func(name string) (setting.Value, bool) { return of(environment, name) },
		Load: func(name, _ string) (*setting.Settings, bool) {
			if name != "conf/c.yaml" {
				return nil, false
			}
			s := setting.New()
			for _, key := range []string{"x", "y"} {
				if text, ok := file[key]; ok {
					s.Set(key, setting.Value{Any: setting.Scalar(text), Text: text})
				}
			}
			return s, true
		},
	}
}

func follow(t interface{ Fatal(...any) }, source string, w value.World) *value.Followed {
	module, gaps, err := python.Parse([]byte(source))
	if err != nil || len(gaps) > 0 {
		t.Fatal(source, gaps, err)
	}
	return value.Follow(context.Background(), "p.py", []byte(source), module, w)
}

// seen is what the calls of a name are given.
func seen(p *value.Followed, name string) string {
	var out []string
	for _, c := range p.Calls {
		if c.Last() != name {
			continue
		}
		var words []string
		for _, v := range c.Position {
			words = append(words, shown(v))
		}
		for _, key := range c.Keywords.Keys() {
			v, _ := c.Keywords.Peek(key)
			words = append(words, key+"="+shown(v))
		}
		maybe := ""
		if c.Maybe {
			maybe = "?"
		}
		out = append(out, name+maybe+"("+strings.Join(words, ", ")+")")
	}
	return strings.Join(out, "; ")
}

func shown(v setting.Value) string {
	if v.Unknown != "" {
		return "<" + v.Unknown + ">"
	}
	return fmt.Sprint(v.Any)
}

func TestFollow(t *testing.T) {
	const parser = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--x', type=int, default=4)\n" +
		"p.add_argument('--on', action='store_true')\n"
	const fields = "from dataclasses import dataclass, field\n@dataclass\nclass A:\n    x: int = 4\n    y: list = field(default_factory=lambda: [1])\n"
	for _, c := range []struct{ name, program, want string }{
		{"a default", "def f(x=4, *, y=2):\n    T(x=x, y=y)\nf(8)\n", "T(x=8, y=2)"},
		{"dead", "on = False\nif on:\n    T(x=1)\nelse:\n    T(x=2)\n", "T(x=2)"},
		{"not known", "if g():\n    x = 1\nelse:\n    x = 2\nT(x=x)\n", "T(x=<is 1 or 2: what line 1 goes by is not known>)"},
		{"the same either way", "if g():\n    x = 1\nelse:\n    x = 1\nT(x=x)\n", "T(x=1)"},
		{"maybe", "if g():\n    T(x=1)\n", "T?(x=1)"},
		{"returned early", "def f():\n    if g():\n        return\n    T(x=1)\nf()\n", "T?(x=1)"},
		{"raised", "def f():\n    if g():\n        raise ValueError\n    T(x=1)\nf()\n", "T(x=1)"},
		{"the command line", parser + "def main(args):\n    T(x=args.x, on=args.on)\nif __name__ == '__main__':\n    main(p.parse_args())\n",
			"T(x=16, on=false)"},
		{"the namespace as a dictionary", parser + "a = p.parse_args()\nT(**vars(a))\n", "T(x=16, on=false)"},
		{"a class", fields + "a = A(5)\na.x += 1\nT(x=a.x, y=a.y)\n", "T(x=6, y=[1])"},
		{"filled", fields + "from transformers import HfArgumentParser, TrainingArguments\n" +
			"a, b = HfArgumentParser((A, TrainingArguments)).parse_args_into_dataclasses()\nT(x=a.x, z=b.z)\n", "T(x=16, z=1)"},
		{"tyro", fields + "import tyro\ndef main(x: int = 1, n: str = 'a'):\n    T(x=x, n=n)\ntyro.cli(main)\n", "T(x=16, n=a)"},
		{"fire", "import fire\ndef main(x=1, n='a'):\n    T(x=x, n=n)\nfire.Fire(main)\n", "T(x=16, n=a)"},
		{"click", "import click\n@click.command()\n@click.option('--x', default=1)\n@click.option('--n', '-m', default='a')\n" +
			"def main(x, n):\n    T(x=x, n=n)\nmain()\n", "T(x=16, n=a)"},
		{"the environment", "import os\nos.environ['OWN'] = '3'\nT(x=int(os.environ['NAME']), y=os.getenv('OWN'), z=os.environ.get('NO', 5))\n",
			"T(x=7, y=3, z=5)"},
		{"what a launcher gives", "import os\nT(x=os.environ.get('WORLD_SIZE', 1))\n", "T(x=<the environment gives $WORLD_SIZE>)"},
		{"a file", "import yaml, os\nwith open(os.path.join('conf', 'c.yaml')) as f:\n    c = yaml.safe_load(f)\nT(x=c['x'], y=c.get('y', 3), z=c.get('z', 9))\n",
			"T(x=2, y=6, z=9)"},
		{"OmegaConf", "from omegaconf import OmegaConf\nc = OmegaConf.merge(OmegaConf.create({'x': 1, 'z': {'a': 1}}), OmegaConf.load('conf/c.yaml'))\nT(x=c.x, z=c.z.a)\n",
			"T(x=2, z=1)"},
		{"a file that is not there", "import json\nc = json.load(open('no.json'))\nT(x=c['x'])\n", "T(x=<stands in no.json, which is not there>)"},
		{"a loop", "xs = []\nfor i in range(3):\n    xs.append(i * 2)\nT(x=xs)\n", "T(x=[0 2 4])"},
		{"a loop of nobody knows how many", "x = 1\nfor i in data:\n    x = x * 2\nT(x=x)\n",
			"T(x=<is changed at line 2 in a way that cannot be followed without running it>)"},
		{"set afterwards", "a = T(x=1)\na.x = 2\n", "T(x=2)"},
		{"what is spread", "k = dict(x=1)\nk['y'] = 2\nif g():\n    k['z'] = 3\nT(**k)\n",
			"T(x=1, y=2, z=<is changed at line 3 in a way that cannot be followed without running it>)"},
		{"imports that may fail", "try:\n    from a import b\n    x = 1\nexcept ImportError:\n    x = 2\nT(x=x)\n", "T(x=1)"},
		{"a format", "n = 7\nT(x=f'm-{n}b', y='{}-{}'.format(1, 'a'), z='a/b'.split('/')[-1])\n", "T(x=m-7b, y=1-a, z=b)"},
		{"never called", "def old():\n    T(x=1)\ndef new():\n    T(x=2)\n    Trainer()\nnew()\n", "T(x=2)"},
		{"handed over", "def f(e):\n    return T(x=1, e=e)\ndata.map(f)\n",
			"T(x=1, e=<is an argument of a function that nothing here calls with a known value>)"},
		{"recursion", "def f(n):\n    f(n + 1)\nf(0)\nT(x=1)\n", "T(x=1)"},
		{"match", "m = 'b'\nmatch m:\n    case 'a':\n        T(x=1)\n    case 'b' | 'c':\n        T(x=2)\n    case _:\n        T(x=3)\n", "T(x=2)"},
		{"methods", "class M:\n    n = 2\n    def __init__(self, k):\n        self.k = k\n    def go(self):\n        T(x=self.k, y=self.n)\nM(3).go()\n", "T(x=3, y=2)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := world(map[string]string{"x": "16", "z": "1"}, map[string]string{"NAME": "7"}, map[string]string{"x": "2", "y": "6"})
			if d := cmp.Diff(c.want, seen(follow(t, c.program, w), "T")); d != "" {
				t.Errorf("%s\n(-want +got):\n%s", c.program, d)
			}
		})
	}
}

// TestWaysToSay holds that it does not matter in which of many ways a program comes to a value.
func TestWaysToSay(t *testing.T) {
	ways := []string{
		"T(x=%[1]s)\n",
		"v = %[1]s\nT(x=v)\n",
		"def main():\n    T(x=%[1]s)\nif __name__ == '__main__':\n    main()\n",
		"def main(v=%[1]s):\n    T(x=v)\nmain()\n",
		"def main(v):\n    T(x=v)\nmain(v=%[1]s)\n",
		"import argparse\np = argparse.ArgumentParser()\np.add_argument('--v', default=%[1]s)\nT(x=p.parse_args().v)\n",
		"class C:\n    v = %[1]s\nT(x=C.v)\n",
		"c = {'a': {'v': %[1]s}}\nT(x=c['a']['v'])\n",
		"import yaml\nc = yaml.safe_load(open('conf/c.yaml'))\nT(x=c['x'])\n",
		"k = {}\nk.update(x=%[1]s)\nT(**k)\n",
		"for v in [%[1]s]:\n    T(x=v)\n",
		"f = lambda: %[1]s\nT(x=f())\n",
		"from dataclasses import dataclass\n@dataclass\nclass D:\n    v: object = %[1]s\nT(x=D().v)\n",
		"a, (b, *c) = 1, (2, %[1]s)\nT(x=c[0])\n",
		"v = None\nv = v or %[1]s if False else %[1]s\nT(x=v)\n",
		"def g(*a, **k):\n    return k['v']\nT(x=g(1, v=%[1]s))\n",
		"import os\nos.environ['V'] = %[1]s\nT(x=os.environ.get('V'))\n",
	}
	dead := []string{"", "if False:\n    v = g()\n    T(x=0)\n", "def nobody():\n    T(x=0)\n    Trainer()\n",
		"if __name__ != '__main__':\n    T(x=0)\n", "while 0:\n    T(x=0)\n"}
	rapid.Check(t, func(t *rapid.T) {
		literal := rapid.OneOf(rapid.Map(rapid.IntRange(-9, 1<<20), func(n int) string { return fmt.Sprint(n) }),
			rapid.SampledFrom([]string{"'a'", "'gpt2'", "0.5", "True", "None"})).Draw(t, "literal")
		program := rapid.SampledFrom(ways).Draw(t, "way")
		program = strings.ReplaceAll(program, "%[1]s", literal)
		program = rapid.SampledFrom(dead).Draw(t, "before") + program + rapid.SampledFrom(dead).Draw(t, "after") + "Trainer()\n"
		text := strings.Trim(literal, "'")
		if text == "None" {
			text = "null" // as YAML says it
		}
		want := seen(follow(t, "T(x="+literal+")\n", value.World{}), "T")
		w := world(nil, nil, map[string]string{"x": text})
		if got := seen(follow(t, program, w), "T"); got != want && !(literal == "None" && got == "T()") {
			t.Fatalf("%s\nis %s, want %s", program, got, want)
		}
	})
}

// FuzzFollow holds that no program takes long, and that places lie in it.
func FuzzFollow(f *testing.F) {
	for _, seed := range []string{"a = [a]*9\n", "x = [1]\nx = [x,x]\nx = [x,x]\nT(x=x)\n", "def f():\n    f()\n    f()\nf()\n",
		"while True:\n    x = 1\n    if y: break\n", "d = {}\nd['d'] = d\nT(**d)\nT(x=d)\nd == d\n",
		"class A(A): pass\nA().b.c = A\n", "for i in range(60):\n    for j in range(60):\n        T(i=j)\n",
		"x = 'a'\nfor i in range(60):\n    x = x + x\nT(x)\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		module, _, err := python.Parse(source)
		if err != nil {
			return
		}
		var p *value.Followed
		if dear := process.Reading(len(source), func() {
			p = value.Follow(context.Background(), "p.py", source, module, value.World{})
		}); dear != nil {
			t.Error(dear)
		}
		for _, c := range p.Calls {
			for _, key := range c.Keywords.Keys() {
				if v, _ := c.Keywords.Peek(key); v.Origin.At.Start < 0 || v.Origin.At.End > len(source) {
					t.Errorf("%s stands at %v of %d bytes", key, v.Origin.At, len(source))
				}
			}
		}
	})
}
