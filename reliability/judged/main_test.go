package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/service"
)

const job = `{"model":{"hf_config":{"model_type":"llama","hidden_size":64,"intermediate_size":160,"num_hidden_layers":2,
	"num_attention_heads":4,"vocab_size":500}},"training":{"framework":"hf-trainer","micro_batch":2,"sequence_length":32},"gpus":["a100-sxm4-80gb"]}`

// TestHold: an equal row, one that takes more than its upper bound, one that is refused, and one that its judge
// refused.
func TestHold(t *testing.T) {
	one := strings.ReplaceAll(job, "\n", "")
	answer, err := (&row{Job: []byte(one)}).answer(context.Background(), service.New(service.EmbeddedCatalog()))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name, kept := filepath.Join(dir, "rows.jsonl"), filepath.Join(dir, "kept.jsonl")
	line := `{"id":%q,"judge":"huggingface.py","job":%s,"truth":{"allocated_bytes":%d,"reserved_bytes":%d}}` + "\n"
	equal, reserved := answer.Peak.AllocatedBytes, answer.Peak.ReservedBytes
	text := fmt.Sprintf(line, "key:equal", one, equal, reserved) +
		fmt.Sprintf(line, "key:above", one, answer.Peak.HighBytes, reserved) +
		fmt.Sprintf(line, "switch:refused", strings.Replace(one, "llama", "bamba", 1), equal, reserved) +
		`{"id":"switch:left","judge":"huggingface.py"}` + "\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	if code := run([]string{"-keep", kept, name}, &out, &errs); code != 1 || errs.Len() > 0 {
		t.Errorf("exit code %d, %s", code, errs.String())
	}
	for _, want := range []string{"key:above: allocated -", ", above high_bytes", "switch:refused: refused: ",
		"key                           2      1        1       1        0      1",
		"switch                        1      0        0       0        1      0"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	lines, err := os.ReadFile(kept)
	if err != nil || strings.Count(string(lines), "\n") != 1 || !strings.Contains(string(lines), "key:above") {
		t.Errorf("kept %q, %v", lines, err)
	}
	if code := run(nil, &out, &errs); code != 2 {
		t.Errorf("without a file exit code %d", code)
	}
}
