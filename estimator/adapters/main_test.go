package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCountedByPEFT holds the parameters that adapters train against what releases of peft count, and what peft stops
// at against what is refused.
func TestCountedByPEFT(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no counted jobs: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".jsonl.gz"), func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := run([]string{"-all", path}, &out, &errs); code != 0 {
				t.Errorf("ended with %d: %s\n%s", code, errs.String(), out.String())
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			var jobs, equal int
			if _, err := fmt.Sscanf(lines[len(lines)-1], "%d jobs: %d equal", &jobs, &equal); err != nil || 2*equal < jobs {
				t.Errorf("%d of %d jobs are equal, half is asked for (%v)", equal, jobs, err)
			}
			if strings.Contains(out.String(), "refused here: ") {
				t.Logf("not modelled:\n%s", out.String())
			}
		})
	}
}

const llama = `{"id": "x", "job": {"model": {"hf_config": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
	"num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}}, "training": {"micro_batch": 1, "sequence_length": 8,
	"lora": {"rank": 4, "target_modules": ["q_proj"]}}}, `

// TestInequalities says which of the two counted otherwise or stopped.
func TestInequalities(t *testing.T) {
	for name, c := range map[string]struct {
		line, want string
		code       int
	}{
		"equal":           {llama + `"trained": 1024}`, "1 jobs: 1 equal, 0 refused by both, 0 refused here, 0 unequal", 0},
		"more":            {llama + `"trained": 1025}`, "x: 1024 are trained here, peft trains 1025", 1},
		"peft stops":      {llama + `"refused": "ValueError: no"}`, "x: 1024 are trained here, peft stops: ValueError: no", 1},
		"refused here":    {strings.Replace(llama, `4, "target`, `-4, "target`, 1) + `"trained": 5}`, "x: peft trains 5, refused here: ", 0},
		"refused by both": {strings.Replace(llama, `4, "target`, `-4, "target`, 1) + `"refused": "no"}`, "1 refused by both", 0},
		"not counted":     {llama + `"n": 1}`, `"x" is not counted`, 2},
		"no document":     {"[", "unexpected end", 2},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "counted.jsonl")
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(c.line, "\n", " ")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			if code := run([]string{"-all", path}, &out, &errs); code != c.code {
				t.Errorf("ended with %d, not %d", code, c.code)
			}
			if said := out.String() + errs.String(); !strings.Contains(said, c.want) {
				t.Errorf("%q is not said:\n%s", c.want, said)
			}
		})
	}
}

// TestNoFiles wants files.
func TestNoFiles(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(nil, &out, &errs); code != 2 || errs.Len() == 0 {
		t.Errorf("without files it ends with %d and says %q", code, errs.String())
	}
}
