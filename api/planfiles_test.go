package api_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service"
)

const trainYAML = "### model\nmodel_name_or_path: Qwen/Qwen2.5-0.5B # small\nstage: sft\nfinetuning_type: " +
	"full\ntemplate: qwen\ndataset: x\ncutoff_len: 4096\nper_device_train_batch_size: 16 # large\nbf16: true\n"

// A plan of the user's own file has its patch, which git takes and which changes that line alone.
func TestPlanPatchesFiles(t *testing.T) {
	h := newDemo(t)
	body, err := json.Marshal(map[string]any{"gpus": []string{"rtx-4090"},
		"reading": map[string]any{"files": map[string]string{"full.yaml": trainYAML},
			"known": map[string]any{"gpus": 1}}})
	if err != nil {
		t.Fatal(err)
	}
	w := call(h, http.MethodPost, "/v1/plan", string(body))
	var plan planner.Plan
	if err := json.Unmarshal(w.Body.Bytes(), &plan); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v: %s", w.Code, err, w.Body)
	}
	if plan.Patch == nil || !strings.Contains(plan.Patch.Diff, "-per_device_train_batch_size: 16 # large\n") ||
		plan.Patch.Option == "" {
		t.Fatalf("patch: %+v", plan.Patch)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "full.yaml")
	if err := os.WriteFile(file, []byte(trainYAML), 0o600); err != nil {
		t.Fatal(err)
	}
	git := exec.Command("git", "apply", "-")
	git.Dir, git.Stdin = dir, strings.NewReader(plan.Patch.Diff)
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v: %s\n%s", err, out, plan.Patch.Diff)
	}
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(after), "# small\n") || !strings.Contains(string(after), " # large\n") ||
		strings.Contains(string(after), "batch_size: 16") {
		t.Errorf("after the patch:\n%s", after)
	}
	// The plan of the same job without files is another answer, and has no patch.
	w = call(h, http.MethodPost, "/v1/plan",
		`{"model":{"preset":"gpt2"},"training":{"micro_batch":1,"sequence_length":128},"gpus":["rtx-4090"]}`)
	if strings.Contains(w.Body.String(), `"patch"`) || w.Code != http.StatusOK {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

func TestPlanOfFilesAsks(t *testing.T) {
	h := newDemo(t)
	for _, tt := range []struct{ body, want string }{
		{`{"reading":{"files":{"a.yaml":"model_name_or_path: nobody/knows\nstage: sft\nfinetuning_type: full\ntemplate: x\nper_device_train_batch_size: 1\n"}}}`, "The catalog has no nobody/knows"},
		{`{"reading":{"files":{"a.txt":"nothing"}}}`, "/reading"},
		{`{"model":{"preset":"gpt2"},"reading":{"files":{"a.txt":"nothing"}}}`, "/model"},
		{`{"reading":{"nothing":1}}`, "nothing"},
		{`{"reading":`, "invalid"},
	} {
		w := call(h, http.MethodPost, "/v1/plan", tt.body)
		if w.Code < 400 || w.Code >= 500 || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s: %d: %s", tt.body, w.Code, w.Body)
		}
	}
}

// The job of a failure may be the files that started it.
func TestDiagnoseWithFiles(t *testing.T) {
	body, err := json.Marshal(map[string]any{
		"text": "RuntimeError: CUDA out of memory. Tried to allocate 786.00 MiB (GPU 0; 15.78 GiB total capacity; " +
			"14.28 GiB already allocated; 620.69 MiB free; 14.32 GiB reserved in total by PyTorch)",
		"reading": map[string]any{"command": "python run_clm.py --model_name_or_path gpt2 --dataset_name x " +
			"--per_device_train_batch_size 4 --block_size 1024 --fp16 --do_train"},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := call(newDemo(t), http.MethodPost, "/v1/diagnose", string(body))
	var d service.Diagnosis
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %v: %s", w.Code, err, w.Body)
	}
	if d.Class != "logits" || len(d.Causes[0].Candidates) == 0 || d.Causes[0].Candidates[0].Model != "" {
		t.Errorf("%s: %+v", d.Class, d.Causes[0].Candidates)
	}
}
