package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/vramplan/vramplan/api"
)

// TestHostileTexts: whatever texts are handed to /v1/read and /v1/diagnose, they are answered or refused with a
// problem, in a few kilobytes, nothing of them is logged, and the next request is answered as the first was.
func TestHostileTexts(t *testing.T) {
	const marker = "xyzzy"
	var aliases strings.Builder
	aliases.WriteString("a0: &a0 [" + marker + "]\n")
	for i := 1; i < 14; i++ {
		fmt.Fprintf(&aliases, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9),
			","))
	}
	var levels strings.Builder
	for i := range 2000 {
		levels.WriteString(strings.Repeat(" ", i) + "k:\n")
	}
	files := map[string]map[string]string{
		"aliases of aliases":    {"a.yaml": aliases.String() + "base_model: gpt2\nmicro_batch_size: *a13\n"},
		"an alias of itself":    {"a.yaml": "base_model: &a [*a]\nmicro_batch_size: 1\n" + "# " + marker},
		"deep lists in YAML":    {"a.yaml": "a: " + strings.Repeat("[", 50_000) + marker},
		"deep maps in YAML":     {"a.yaml": levels.String() + "# " + marker},
		"deep JSON":             {"a.json": strings.Repeat(`{"a":`, 50_000) + marker},
		"deep TOML":             {"a.toml": "a = " + strings.Repeat("[", 50_000) + marker},
		"deep Python":           {"a.py": "x = " + strings.Repeat("(", 50_000) + "TrainingArguments(" + marker},
		"deep shell":            {"a.sh": strings.Repeat("$(", 20_000) + marker},
		"a line of a megabyte":  {"a.sh": "python train.py " + strings.Repeat("x", 1<<20-100) + marker},
		"NUL bytes":             {"a.sh": "python train.py\x00 --batch_size=4 " + marker + "\n"},
		"an archive":            {"a.yaml": "PK\x03\x04" + strings.Repeat("\ufffd", 5000) + marker},
		"a loop of 100 million": {"a.sh": "for i in $(seq 1 100000000); do python train.py " + marker + "; done"},
		"braces":                {"a.sh": "python train.py " + strings.Repeat("{1..9999}", 3) + marker},
		"numbers beyond all": {"a.yaml": "base_model: gpt2\nmicro_batch_size: 1e999\nsequence_len: " +
			strings.Repeat("9", 400)},
		"a name that climbs": {"../../etc/passwd": marker},
		"too large a file":   {"a.sh": strings.Repeat("#", 1<<21) + marker},
		"too many files": func() map[string]string {
			many := map[string]string{}
			for i := range 40 {
				many[fmt.Sprintf("f%d.sh", i)] = "python train.py " + marker
			}
			return many
		}(),
	}
	texts := map[string]string{
		"NUL bytes":             "CUDA out of memory. \x00 Tried to allocate 1.00 GiB " + marker,
		"heads alone":           strings.Repeat("CUDA out of memory. ", 40_000) + marker,
		"a line of a megabyte":  strings.Repeat("x", 1<<20-200) + "CUDA out of memory. " + marker,
		"the start of a pickle": "\x80\x04\x95" + marker,
		"deep snapshot":         `{"segments":` + strings.Repeat("[", 100_000) + marker,
		"digits": "CUDA out of memory. Tried to allocate " + strings.Repeat("9", 100_000) + " GiB " +
			marker,
	}
	var log bytes.Buffer
	logger := zerolog.New(&log)
	h := newAPI(api.Options{Logger: &logger})
	try := func(name, path string, request any) {
		t.Run(path+" "+name, func(t *testing.T) {
			body, err := json.Marshal(request)
			if err != nil {
				t.Fatal(err)
			}
			w := call(h, http.MethodPost, path, string(body))
			if w.Code >= http.StatusInternalServerError || w.Code == 0 {
				t.Errorf("status %d: %.300s", w.Code, w.Body)
			}
			if w.Body.Len() > 1<<16 {
				t.Errorf("%d bytes of an answer", w.Body.Len())
			}
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("no JSON: %.300s", w.Body)
			}
		})
	}
	for name, f := range files {
		try(name, "/v1/read", map[string]any{"files": f})
	}
	for name, text := range texts {
		try(name, "/v1/diagnose", map[string]any{"text": text})
	}
	if log.Len() == 0 {
		t.Error("nothing was logged, so that it proves nothing")
	}
	if strings.Contains(log.String(), marker) {
		t.Errorf("texts are in the log: %.500s", log.String())
	}
	w := call(h, http.MethodPost, "/v1/read",
		`{"command": "python train.py --batch_size=4 --n_layer=2 --dataset=shakespeare"}`)
	if w.Code != http.StatusOK {
		t.Errorf("after all that: %d: %s", w.Code, w.Body)
	}
}
