package pickle

import (
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"strings"
	"testing"
)

var wide = Limits{Bytes: 1 << 24, Memory: 1 << 26}

// plainly is a value without this package's types.
func plainly(v any) any {
	switch v := v.(type) {
	case *List:
		out := []any{}
		for _, item := range v.Items {
			out = append(out, plainly(item))
		}
		return out
	case *Dict:
		out := map[any]any{}
		for i := range v.keys {
			out[v.keys[i]] = plainly(v.values[i])
		}
		return out
	}
	return v
}

func TestDecode(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want any
	}{
		"none":                   {"\x80\x04N.", nil},
		"a number of four bytes": {"J\xff\xff\xff\xff.", int64(-1)},
		"long numbers":           {"(\x8a\x02\x00\x80\x8a\x00\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00t.", []any{int64(-32768), int64(0), uint64(1) << 63}},
		"a float":                {"G\x3f\xf8\x00\x00\x00\x00\x00\x00.", 1.5},
		"a dictionary":           {"}(\x8c\x01aK\x01X\x01\x00\x00\x00b\x88u.", map[any]any{"a": int64(1), "b": true}},
		"tuples":                 {"K\x01K\x02\x86\x85.", []any{[]any{int64(1), int64(2)}}},
		"what is named twice":    {"]\x94(\x8c\x01x\x94h\x01h\x01e.", []any{"x", "x", "x"}},
		"the last of two keys":   {"}(K\x01K\x02K\x01K\x03u.", map[any]any{int64(1): int64(3)}},
		"one by one":             {"]K\x01a}\x8c\x01kNs0.", []any{int64(1)}},
	} {
		got, err := Decode(strings.NewReader(tt.text), wide)
		if err != nil || !reflect.DeepEqual(plainly(got), tt.want) {
			t.Errorf("%s: %v, %v, want %v", name, plainly(got), err, tt.want)
		}
	}
}

// Whatever is no data is refused by name, and what is broken at its place.
func TestRefused(t *testing.T) {
	for text, words := range map[string]string{
		"cos\nsystem\n(\x8c\x04evilt R.":        "at byte 0 the pickle wants to load a class or function (GLOBAL)",
		"\x80\x04\x8c\x02os\x8c\x06system\x93.": "(STACK_GLOBAL)",
		"\x80\x03C\x03abc.":                     "hold bytes (SHORT_BINBYTES)",
		"K\x01R.":                               "call something (REDUCE)",
		"K\x01b.":                               "change an object (BUILD)",
		"\x80\x09.":                             "broken",
		"]K\x01":                                "it ends at byte 3",
		"h\x05.":                                "broken at byte 1",
		"K\x01K\x02.":                           "broken",
		"t.":                                    "broken at byte 0",
		"(K\x01a.":                              "broken",
		"}]K\x01s.":                             "no text or number",
		"}(K\x01u.":                             "broken",
		"\xf0.":                                 "0xf0 at byte 0 is no operation",
		"\x8a\xff" + strings.Repeat("\xff", 255) + ".": "a number of 255 bytes at byte 2",
		"\x8b\xff\xff\xff\x7f.":                        "0x8b at byte 0 is no operation",
		"":                                             "it ends at byte 0",
	} {
		if _, err := Decode(strings.NewReader(text), wide); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v, want %s", text, err, words)
		}
	}
}

// What a file announces allocates nothing, and what it makes is bounded.
func TestBounded(t *testing.T) {
	for name, text := range map[string]string{
		"a text that is not there":    "\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",
		"a text of 4 GiB":             "X\xff\xff\xff\xff.",
		"many lists":                  strings.Repeat("]", 1<<18),
		"many marks":                  strings.Repeat("(", 1<<18),
		"one object, named for ever":  "]" + strings.Repeat("\x94", 1<<18),
		"one object, put in for ever": "]\x94" + strings.Repeat("h\x00a", 1<<18),
	} {
		_, err := Decode(strings.NewReader(text), Limits{Bytes: 1 << 20, Memory: 1 << 20})
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What holds itself, and what is nested as deep as may be, is read: nothing goes down into it.
func TestNested(t *testing.T) {
	v, err := Decode(strings.NewReader("]\x94h\x00a."), wide)
	if list, ok := v.(*List); err != nil || !ok || len(list.Items) != 1 || list.Items[0] != v {
		t.Errorf("%v", err)
	}
	const deep = 60_000
	v, err = Decode(strings.NewReader(strings.Repeat("]", deep)+strings.Repeat("a", deep-1)+"."), wide)
	levels := 0
	for list, ok := v.(*List); ok; list, ok = list.Items[0].(*List) {
		if levels++; len(list.Items) == 0 {
			break
		}
	}
	if err != nil || levels != deep {
		t.Errorf("%d levels, %v", levels, err)
	}
}

// TestPython reads what Python's own pickler writes, in every protocol that has it in binary.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	for protocol := 2; protocol <= 5; protocol++ { // before, numbers were text
		program := fmt.Sprintf("import pickle, sys; s='frame'; sys.stdout.buffer.write(pickle.dumps({'a': [s, s, {'n': 2**62, 'm': -2**40, 'f': 0.25}]*3, 'many': list(range(2500)), "+
			"'t': (1, 2, 3, 4, None, True), 'e': [], 'u': 2**63 + 5, 'long': 'x' * 70000}, protocol=%d))", protocol)
		out, err := exec.Command(python, "-c", program).Output()
		if err != nil {
			t.Fatal(err)
		}
		v, err := Decode(strings.NewReader(string(out)), wide)
		if err != nil {
			t.Fatalf("protocol %d: %v", protocol, err)
		}
		d := v.(*Dict)
		want := map[any]any{"n": int64(1) << 62, "m": int64(-1) << 40, "f": 0.25}
		if got := plainly(d.Get("a")).([]any); len(got) != 9 || got[7] != "frame" || !reflect.DeepEqual(got[8], want) {
			t.Errorf("protocol %d: %v", protocol, got)
		}
		many := d.Get("many").(*List).Items
		if len(many) != 2500 || many[2499] != int64(2499) || d.Get("u") != uint64(1)<<63+5 || len(d.Get("long").(string)) != 70000 || d.Get("none") != nil {
			t.Errorf("protocol %d: %d of many, %v", protocol, len(many), d.Get("u"))
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{"}(\x8c\x01aK\x01X\x01\x00\x00\x00b\x88u.", "]\x94(\x8c\x01x\x94h\x01h\x01e.", "cos\nsystem\n.", "K\x01K\x02\x86\x85.", "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00."} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		limits := Limits{Bytes: 1 << 20, Memory: 1 << 20}
		v, err := Decode(strings.NewReader(string(text)), limits)
		if err != nil && v != nil {
			t.Errorf("both %v and %v", v, err)
		}
		// what is made is data, and reads the same again
		again, other := Decode(strings.NewReader(string(text)), limits)
		if (err == nil) != (other == nil) {
			t.Errorf("%v, then %v", err, other)
		}
		switch v.(type) {
		case nil, bool, int64, uint64, float64, string:
			if again != v && v == v { //nolint:staticcheck // NaN
				t.Errorf("%v, then %v", v, again)
			}
		case *List, *Dict:
		default:
			t.Errorf("a %T", v)
		}
	})
}
