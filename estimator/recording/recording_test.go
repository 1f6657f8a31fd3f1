package recording

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/reliability/process"
)

// small is a recording by hand: an embedding, two linear layers and a mean.
const small = `{"vramplan_recording":1,"name":"small","source":"test.small","versions":{"torch":"2.15.0"},"sequence":0,"digest":"sha256:0",
"batch":["1BT i64"],"parameters":["embed.weight 100x8 parameter","mask 4x4 buffer u8"],
"layers":{"count":2,"name":"blocks","parameters":["blocks.0.weight 8x8 parameter"],"after":1},
"programs":{"fp32":{
"before":["P e","A 1 8BT f32 embedding","N 0 1 p0 0","e 0 1BT 100 8 f32","|","s 0 0"],
"input":"1 0.0",
"layer":["P m","A 0 8BT f32 mm","W 0","N 0 1 x,l0 x","a 0 64 f32 mm","w","a 1 8BT f32 mm","w","|","s 1 0","v 0 1"],
"output":"0 0.0","escapes":[],
"after":["A 2 1 f32 mean","N 1 1 x -","a 0 8BT f32 div","|","s 0 0","F x"],
"outputs":[],"loss":"2 1.0"}},"unfolded":[],"unexpressed":[]}`

func TestRead(t *testing.T) {
	r, err := Read([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	p := r.Programs["fp32"]
	layer := p.Layers[0]
	if r.Layers != 2 || len(layer.Instructions) != 4 ||
		len(layer.Instructions[3].Backward) != 7 || layer.Values != 1 || p.Nodes != 2 {
		t.Errorf("read %d layers, %d instructions of one, %+v", r.Layers, len(layer.Instructions), p)
	}
	if !r.VariesInLength() || !r.VariesInBatch() {
		t.Error("the length of the sequences was not seen")
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]int64{"12": 12, "3BT": 3 * 5 * 7, "2BTT+1B-4": 2*5*7*7 + 5 - 4, "0": 0,
		"-5": 0, "3/20BT": 5, "1/2BT-1/2": 18, "1099511627776/1048575BTT": 256901365} {
		s, err := parseSize(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := s.Elements(5, 7); got != want {
			t.Errorf("%s is %d, want %d", text, got, want)
		}
		if float64(want) > s.About(5, 7) {
			t.Errorf("%s is about %g, less than %d", text, s.About(5, 7), want)
		}
	}
	for _, text := range []string{"", "B", "+3", "3X", "3B4", "99999999999999", "1TTTTT", "3+", "3/", "3/0B", "3/1048577B", "/2B"} {
		if _, err := parseSize(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// TestWrong changes one thing of a recording and holds the error against it.
func TestWrong(t *testing.T) {
	for name, c := range map[string]struct{ old, by, want string }{
		"format": {`"vramplan_recording":1`, `"vramplan_recording":2`,
			"/vramplan_recording: the format is 2; 1 is read"},
		"unknown field": {`"name":"small"`, `"name":"small","more":1`,
			`: this is no recording: json: unknown field "more"`},
		"value out of order": {`"A 1 8BT`, `"A 7 8BT`, "value 7 is made where 1 would follow"},
		"unknown value":      {`N 0 1 p0 0`, `N 0 1 p0 9`, `there is no value "9"`},
		"unknown parameter":  {`N 0 1 p0 0`, `N 0 1 p5 0`, `there is no parameter "p5"`},
		"freed twice":        {`"s 0 0","F x"`, `"s 0 0","F x","F x"`, `"x"`},
		"register":           {`"s 1 0","v 0 1"`, `"s 2 0","v 0 1"`, "register 2 holds nothing"},
		"register taken":     {`"a 1 8BT f32 mm"`, `"a 0 8BT f32 mm"`, "register 0 is taken"},
		"twice to an input":  {`"s 1 0","v 0 1"`, `"s 1 0","v 0 0"`, "input 0 gets its gradient twice"},
		"no node":            {`"P e","A 1`, `"w","A 1`, "stands behind no node"},
		"type":               {`"A 2 1 f32 mean"`, `"A 2 1 f31 mean"`, `"f31" is no type`},
		"many edges":         {`N 0 1 x,l0 x`, `N 0 1 x,l0` + strings.Repeat(",-", maxEdges) + ` x`, "up to 250 inputs"},
		"program":            {`"programs":{"fp32"`, `"programs":{"int8"`, "/programs/int8: is no kind of precision"},
		"loss":               {`"loss":"2 1.0"`, `"loss":"2 -"`, "no gradient reaches it"},
		"graph": {`"programs":{`, `"evaluations":{"fp32":{"before":["N 0 1 - -"]}},"programs":{`,
			"an evaluation has no graph"},
		"checkpoints": {`"name":"small"`, `"name":"small","checkpoints":"some"`, "/checkpoints: is \"some\""},
		"layers":      {`"count":2`, `"count":4096`, "/layers/count: is 4096; it is from 0 to 1024"},
		"large":       {`blocks.0.weight 8x8`, `blocks.0.weight 999999999x999999999`, "is too large"},
		"dimension":   {`mask 4x4 buffer u8`, `mask 4xx4 buffer u8`, "is no dimension"},
		"own type":    {`100x8 parameter`, `100x8 parameter =f31`, `"f31" is no type`},
		"holds":       {`"name":"small"`, `"name":"small","holds":{"length":[9,3]}`, "/holds/length: are two sizes"},
		"empty line":  {`"F x"`, `""`, "is empty"},
		"order":       {`"after":1`, `"after":1,"order":[1]`, "/layers/order/0: is 1; kinds are numbered as they come"},
		"no kind":     {`"after":1`, `"after":1,"others":[[]]`, "/layers/order: names 1 kinds of layers; there are 2"},
		"long order":  {`"after":1`, `"after":1,"order":[0,0,0]`, "/layers/order: names 3 layers; there are 2"},
		"kind without a layer": {`"after":1`, `"after":1,"order":[0,1],"others":[[]]`,
			"/programs/fp32/others: has 0 layers; there are 2 kinds of them"},
		"layer without a kind": {`"outputs":[]`, `"outputs":[],"others":[{}]`,
			"/programs/fp32/others: has 1 layers; there are 1 kinds of them"},
		"layer's own value": {`"output":"0 0.0"`, `"output":"x x"`, "a layer returns what it made"},
	} {
		text := strings.Replace(small, c.old, c.by, 1)
		if text == small {
			t.Errorf("%s: nothing was changed", name)
			continue
		}
		_, err := Read([]byte(text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// FuzzRead: no text crashes the reader, and what it accepts bounds what it allocates.
func FuzzRead(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(towers(3, 2, true)))
	files, _ := filepath.Glob("testdata/*.json")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r *Recording
		var err error
		if dear := process.Reading(len(text), func() { r, err = Read(text) }); dear != nil {
			t.Error(dear)
		}
		if err != nil {
			return
		}
		for _, p := range r.Programs {
			total := 0.0
			for _, list := range p.Stretches() {
				for i := range list {
					total += float64(list[i].Size.Elements(3, 5))
				}
			}
			if about := r.About(3, 5, 0); total > about {
				t.Errorf("%g elements are more than the bound %g", total, about)
			}
		}
	})
}
