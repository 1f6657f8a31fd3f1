package decode_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/reliability/process"
	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// shown writes settings one a line: key, value, and the bytes of the file where the value stands.
func shown(text string, s *setting.Settings) []string {
	var out []string
	for _, key := range s.Keys() {
		v, _ := s.Peek(key)
		if _, object := v.Any.(map[string]any); object {
			continue
		}
		at := v.Origin.At
		line := fmt.Sprintf("%s = %v (%T) at %d %q", key, v.Any, v.Any, at.Line, text[at.Start:at.End])
		if v.Unknown != "" {
			line = fmt.Sprintf("%s unknown: %s", key, v.Unknown)
		}
		out = append(out, line)
	}
	return out
}

func TestYAML(t *testing.T) {
	text := `micro_batch_size: 4 # comment
gradient_checkpointing: on
learning_rate: 2e-5
max_duration: 739_328
name: "quoted"
model:
  Qwen/Qwen2.5-0.5B
base: &b {r: 8}
lora:
  <<: *b
  alpha: 16
twice: 1
twice: 2
list: [a, 'b']
`
	all, err := decode.YAML("x.yaml", []byte(text))
	if err != nil || len(all) != 1 {
		t.Fatal(len(all), err)
	}
	want := []string{
		`micro_batch_size = 4 (int64) at 1 "4"`,
		`gradient_checkpointing = true (bool) at 2 "on"`,
		`learning_rate = 2e-5 (string) at 3 "2e-5"`,
		`max_duration = 739328 (int64) at 4 "739_328"`,
		`name = quoted (string) at 5 "quoted"`,
		`model = Qwen/Qwen2.5-0.5B (string) at 7 "Qwen/Qwen2.5-0.5B"`,
		`base.r = 8 (int64) at 8 "8"`,
		`lora.r = 8 (int64) at 8 "8"`,
		`lora.alpha = 16 (int64) at 11 "16"`,
		`twice = 2 (int64) at 13 "2"`,
		`list.0 = a (string) at 14 "a"`,
		`list.1 = b (string) at 14 "b"`,
		`list = [a b] ([]interface {}) at 14 ""`,
	}
	if d := cmp.Diff(want, shown(text, all[0])); d != "" {
		t.Errorf("settings (-want +got):\n%s", d)
	}
}

func TestYAMLNamesTheLineThatIsWrong(t *testing.T) {
	_, err := decode.YAML("x.yaml", []byte("a: 1\nreport_to:wandb\nb: 2\n"))
	if err == nil || !strings.Contains(err.Error(), "x.yaml:2: is not YAML: a space is missing after report_to:") {
		t.Errorf("error %v", err)
	}
}

func TestYAMLRefusesBombs(t *testing.T) {
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9),
			","))
	}
	if _, err := decode.YAML("x.yaml", []byte(bomb)); err == nil {
		t.Error("an alias bomb was expanded")
	}
}

func TestTOML(t *testing.T) {
	text := "[training]\nseq_len = 8_192 # tokens\nname = \"x\"\non = true\n[[more]]\nlist = [1, " +
		"2]\ninline = {a = 1.5}\n"
	s, err := decode.TOML("x.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`training.seq_len = 8192 (int64) at 2 "8_192"`,
		`training.name = x (string) at 3 "x"`,
		`training.on = true (bool) at 4 "true"`,
		`more.0.list.0 = 1 (int64) at 6 "1"`,
		`more.0.list.1 = 2 (int64) at 6 "2"`,
		`more.0.list = [1 2] ([]interface {}) at 0 ""`,
		`more.0.inline.a = 1.5 (float64) at 7 "1.5"`,
	}
	if d := cmp.Diff(want, shown(text, s)); d != "" {
		t.Errorf("settings (-want +got):\n%s", d)
	}
}

func TestJSON(t *testing.T) {
	text := "{\n  // a comment\n  \"zero_optimization\": {\"stage\": 3, \"sub_group_size\": 1e9},\n  " +
		"\"batch\": \"auto\",\n}\n"
	s, err := decode.JSON("x.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`zero_optimization.stage = 3 (int64) at 3 "3"`,
		`zero_optimization.sub_group_size = 1e+09 (float64) at 3 "1e9"`,
		`batch = auto (string) at 4 "auto"`,
	}
	if d := cmp.Diff(want, shown(text, s)); d != "" {
		t.Errorf("settings (-want +got):\n%s", d)
	}
}

func TestPython(t *testing.T) {
	text := `"""a docstring with batch_size = 9"""
batch_size = 12
steps = 5 * 8  # 40
dtype = 'bfloat16' if torch.cuda.is_bf16_supported() else 'float16'
wide = 2 ** 10
if master:
    block_size = 64
size = other
def main():
    length = 2048
class Args:
    rank: int = field(default=8, metadata={"help": "rank"})
    names: list = field(default_factory=lambda: ["q", "v"])
model = Lora(
    r=16,  # the rank
    modules=["a"], dtype=torch.bfloat16, call=f())
`
	p, err := decode.Python("x.py", []byte(text), "")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`batch_size = 12 (int64) at 2 "12"`,
		`steps = 40 (int64) at 3 "5 * 8"`,
		`dtype = bfloat16 (string) at 4 "'bfloat16' if torch.cuda.is_bf16_supported() else 'float16'"`,
		`wide = 1024 (int64) at 5 "2 ** 10"`,
		`block_size unknown: is changed at line 6 in a way that cannot be followed without running it`,
		`size unknown: is not a plain value`,
		`model unknown: is not a plain value`,
	}
	if d := cmp.Diff(want, shown(text, p.Values)); d != "" {
		t.Errorf("values (-want +got):\n%s", d)
	}
	fields := []string{`rank = 8 (int64) at 12 "8"`, `names = [q v] ([]interface {}) at 13 "lambda: [\"q\", \"v\"]"`}
	if d := cmp.Diff(fields, shown(text, p.Fields)); d != "" {
		t.Errorf("fields (-want +got):\n%s", d)
	}
	call, ok := p.Call("Lora")
	if !ok {
		t.Fatal("the call was not found")
	}
	arguments := []string{`r = 16 (int64) at 15 "16"`, `modules = [a] ([]interface {}) at 16 "[\"a\"]"`,
		`dtype = torch.bfloat16 (string) at 16 "torch.bfloat16"`, `call unknown: is not a plain value`}
	if d := cmp.Diff(arguments, shown(text, call.Keywords)); d != "" {
		t.Errorf("arguments (-want +got):\n%s", d)
	}
}

// spans holds every value's place against the file.
func spans(t *testing.T, text []byte, s *setting.Settings) {
	t.Helper()
	for _, key := range s.Keys() {
		v, _ := s.Peek(key)
		if at := v.Origin.At; at.Start < 0 || at.End < at.Start || at.End > len(text) {
			t.Fatalf("%s stands at %d to %d of %d bytes", key, at.Start, at.End, len(text))
		}
	}
}

func FuzzYAML(f *testing.F) {
	for _, seed := range []string{"a: 1\n", "a: &x {b: [1, *x]}\n", "? a\n: b\n", "a: |\n  x\n---\nb: 'y'\n",
		"<<: {a: 1}\na: é\n", "a: !!int \"3\"\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var all []*setting.Settings
		var err error
		if dear := process.Reading(len(text), func() { all, err = decode.YAML("x", text) }); dear != nil {
			t.Error(dear)
		}
		for _, s := range all {
			spans(t, text, s)
		}
		if err != nil && err.Error() == "" {
			t.Error("an error without words")
		}
	})
}

func FuzzTOML(f *testing.F) {
	for _, seed := range []string{"[a]\nb = 1\n", "a.b = [1, {c = 2}]\n", "[[x]]\ny = '''z'''\n", "a = 1979-05-27\n",
		"a = 0x1F\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s *setting.Settings
		var err error
		if dear := process.Reading(len(text), func() { s, err = decode.TOML("x", text) }); dear != nil {
			t.Error(dear)
		}
		if err == nil {
			spans(t, text, s)
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a": [1, 2.5, "x", null, true]}`, `{/* c */ "a": 1e9,}`, `[`, `{"a": "\ud800"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s *setting.Settings
		var err error
		if dear := process.Reading(len(text), func() { s, err = decode.JSON("x", text) }); dear != nil {
			t.Error(dear)
		}
		if err == nil {
			spans(t, text, s)
		}
	})
}

func FuzzPython(f *testing.F) {
	for _, seed := range []string{"a = 5 * 8\n", "f(a=1, b=[\n2])\n", "class A:\n  x: int = field(default=3)\n",
		"a = '''\n", "a = (\n", "if x:\n\ta = 1\n", "a = \\\n 2\n", "p.add_argument('--x', default=1)\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var p *decode.Program
		var err error
		if dear := process.Reading(len(text), func() { p, err = decode.Python("x", text, "") }); dear != nil {
			t.Error(dear)
		}
		if err != nil {
			return
		}
		spans(t, text, p.Values)
		spans(t, text, p.Fields)
		for _, c := range p.Calls {
			spans(t, text, c.Keywords)
		}
	})
}
