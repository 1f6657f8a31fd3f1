package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A folder with one training that fits, one that is open, and one script that trains nothing.
func TestAnswered(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	t.Chdir("../..")
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a/c.yaml": "model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: sft\ndo_train: true\nfinetuning_type: lora\n" +
			"dataset: d\ntemplate: qwen\ncutoff_len: 256\nper_device_train_batch_size: 1\nbf16: true\noutput_dir: o\n",
		"a/run.sh": "llamafactory-cli train c.yaml\n",
		"a/x.sh":   "llamafactory-cli train c.yaml $MORE\n",
		"b/y.sh":   "echo nothing\n",
	} {
		name = filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"-gpu", "h100-sxm5", folder}, &out); err != nil {
		t.Fatal(err)
	}
	want := "1 of 2 trainings get an answer (50 %): 1 fit, 0 do not, 1 are open, 0 are bad input; 1 scripts start " +
		"nothing that is known\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %q, want %q at its end", out.String(), want)
	}
}
