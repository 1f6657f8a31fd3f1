package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Cases whose expected.json agrees with what is read, disagrees, or says that nothing can be read, and commands.
func TestJudged(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	t.Chdir("../..")
	const launch = "python run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --block_size 512 --do_train " +
		"--output_dir o\n"
	const job = `{"model": {"preset": "gpt2"}, "training": {"micro_batch": %, "sequence_length": 512, "precision": "fp32",
		"optimizer": {"name": "adamw", "implementation": "fused"}, "gradient_checkpointing": "none",
		"framework": "hf-trainer"}}`
	expects := func(batch string) string {
		return `{"tool": "hf-trainer", "entry": "a.sh", "outcome": "job", "jobs": [` + strings.Replace(job, "%", batch, 1) +
			`]}`
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"same/a.sh": launch, "same/expected.json": expects("4"),
		"other/a.sh": launch, "other/expected.json": expects("16"),
		"open/a.sh": strings.Replace(launch, "512", "$N", 1), "open/expected.json": expects("4"),
		"serves/a.sh": "python serve.py --model_name_or_path gpt2\n", "serves/expected.json": `{"tool": "none",
			"entry": "a.sh", "outcome": "refuse", "refuse": {"mention": ["serve.py"]}}`,
		"none/a.sh": launch, "none/expected.json": `{"tool": "none", "entry": "a.sh", "outcome": "none"}`,
		"line/a.sh": launch,
		"CASES.jsonl": `{"id": "line", "command": "vramplan read a.sh", "want": "model gpt2, micro_batch 4"}
{"id": "line", "command": "vramplan read a.sh", "want": "micro_batch 2"}
{"id": "line", "command": "vramplan check --script a.sh --gpu rtx-4090", "want": "never exit 1"}
`,
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
	if err := run(t.Context(), []string{"-judge", folder}, &out); err != nil {
		t.Fatal(err)
	}
	want := `| program | right | asked | refused well | wrong | asked though said | refused badly | to look at |
|---|---|---|---|---|---|---|---|
| check | 1 | 0 | 0 | 0 | 0 | 0 | 0 |
| hf-trainer | 2 | 0 | 0 | 2 | 1 | 0 | 0 |
| none | 0 | 0 | 1 | 1 | 0 | 0 | 0 |
| all | 3 | 0 | 1 | 3 | 1 | 0 | 0 |
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}
