package recording

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestPlainIsJSON holds the reader of plain documents against encoding/json, on recordings and on recordings of which
// some bytes are others: it reads the same document or says that it reads none.
func TestPlainIsJSON(t *testing.T) {
	paths, err := filepath.Glob("../testdata/recordings/family/*.json")
	if err != nil {
		t.Fatal(err)
	}
	var texts [][]byte
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(path) == "configs.json" {
			continue
		}
		if _, ok := readPlain(text); !ok {
			t.Errorf("%s is not read as plain", path)
		}
		samePlain(t, text)
		texts = append(texts, text)
	}
	small := []byte(`{"vramplan_recording": 1, "name": "m", "padded": true, "sequence": 0,
"versions": {"torch": "2.9.1"}, "batch": ["BT i64"], "layers": {"count": 2, "others": [["a"], []], "order": [0, 1]},
"programs": {"amp": {"before": ["F 0"], "others": [{"layer": [], "output": "1 0.0"}], "blocks": [["A"]], "loss": ""}},
"blocks": [["A $0"], []]}`)
	if _, ok := readPlain(small); !ok {
		t.Error("a small document is not read as plain")
	}
	texts = append(texts, small, small, small, small)
	rapid.Check(t, func(t *rapid.T) {
		text := bytes.Clone(rapid.SampledFrom(texts).Draw(t, "text"))
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				text[at] = rapid.SampledFrom([]byte("\"\\[]{},:0-1e.tfn \n\t\x00\xc3Aa")).Draw(t, "byte")
			case 1:
				text = append(text[:at], text[at+1:]...)
			case 2:
				to := min(len(text), at+rapid.IntRange(1, 40).Draw(t, "length"))
				text = bytes.Join([][]byte{text[:to], text[at:]}, nil)
			}
		}
		samePlain(t, text)
	})
}

type failing interface {
	Helper()
	Fatalf(format string, args ...any)
}

func samePlain(t failing, text []byte) {
	t.Helper()
	read, ok := readPlain(text)
	if !ok {
		return
	}
	want, err := decode(text)
	if err != nil || !json.Valid(text) || !reflect.DeepEqual(read, want) {
		t.Fatalf("encoding/json reads another document (%v) of %.300q", err, text)
	}
}
