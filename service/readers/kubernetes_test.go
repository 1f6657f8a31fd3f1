package readers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/vramplan/vramplan/service/readers"
)

// TestKubernetesPatch changes a job where it stands in its manifest, in a mounted configuration. One whose words stand
// in two places has no patch, and the word is named.
func TestKubernetesPatch(t *testing.T) {
	for name, line := range map[string]string{"kubernetes_pytorchjob": "", "kubernetes_job": "+    per_device_train_batch_size: 1"} {
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
			if err != nil {
				t.Fatal(err)
			}
			source, _ := sourceOf(archive)
			answer, err := readers.Read(context.Background(), source)
			if err != nil || len(answer.Jobs) != 1 {
				t.Fatalf("%d jobs, %v", len(answer.Jobs), err)
			}
			patch, err := readers.MakePatch(context.Background(), source, &answer.Jobs[0],
				map[string]any{"/training/micro_batch": int64(1)})
			if line == "" { // what the workers run would stay as it is
				if refused, ok := errors.AsType[*readers.InexpressibleError](err); !ok ||
					!strings.Contains(err.Error(), "more than one place") || len(refused.Words) != 1 ||
					!strings.Contains(refused.Words[0], ": per_device_train_batch_size 2 → 1") {
					t.Errorf("%+v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(patch.Diff, line) {
				t.Errorf("no line %q in\n%s", line, patch.Diff)
			}
		})
	}
}

// TestKubernetesReplicas holds the number of processes against the replicas and the GPUs of a pod, and that a count
// that the file leaves open is not made up.
func TestKubernetesReplicas(t *testing.T) {
	const manifest = `apiVersion: kubeflow.org/v1
kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master: {replicas: 1, template: {spec: &pod {containers: [{name: pytorch, command: %s, resources: {limits: {nvidia.com/gpu: %s}}}]}}}
    Worker: {replicas: %s, template: {spec: *pod}}
`
	arguments := `clm.py, --model_name_or_path, gpt2, --per_device_train_batch_size, "1", --block_size, "512"]`
	for _, c := range []struct{ launch, gpus, workers, want string }{
		{"[torchrun, ", "4", "3", `"world_size":16`},
		{"[torchrun, --nproc_per_node=2, ", "4", "3", `"world_size":8`},
		{"[python, ", "1", "7", `"world_size":8`},
		{"[torchrun, ", "4", "$WORKERS", ""},
	} {
		text := []byte(fmt.Sprintf(manifest, c.launch+arguments, c.gpus, c.workers))
		answer := readManifest(t, text)
		if len(answer.Jobs) != 1 {
			t.Fatalf("%+v: %d jobs", c, len(answer.Jobs))
		}
		got := answer.Jobs[0].Document
		if c.want == "" && bytes.Contains(got, []byte("world_size")) || !bytes.Contains(got, []byte(c.want)) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func readManifest(t *testing.T, text []byte) *readers.Answer {
	answer, err := readers.Read(context.Background(), readers.Source{Files: []string{"job.yaml"}, Dir: "/job",
		ReadFile: func(name string) ([]byte, error) {
			if name == "/job/job.yaml" {
				return text, nil
			}
			return nil, fs.ErrNotExist
		}})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// FuzzKubernetes reads whatever claims to be a manifest: it must end, and give well-formed documents.
func FuzzKubernetes(f *testing.F) {
	names, err := filepath.Glob("testdata/kubernetes_*.txtar")
	if err != nil || len(names) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Data)
	}
	f.Add([]byte("apiVersion: &a [*a]\nkind: Pod\nspec: &s {<<: *s, containers: [{command: [sh, -c, *a]}]}\n"))
	f.Add([]byte("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - command: [bash, -c]\n    args:\n    - |\n      " +
		"cat > x <<EOF\n      a\n      EOF\n    - $$(A) $(B)\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		answer := readManifest(t, text)
		for _, j := range answer.Jobs {
			if !json.Valid(j.Document) {
				t.Errorf("not JSON: %s", j.Document)
			}
		}
	})
}

// A label that names no card of the catalog is said, and no field that nothing can answer.
func TestUnknownNodeLabel(t *testing.T) {
	archive := txtar.Parse([]byte("-- pod.yaml --\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  " +
		"nodeSelector: {nvidia.com/gpu.product: NVIDIA-Unheard-9000}\n  containers:\n    - name: a\n" +
		"      image: x\n      command: [python, run_clm.py, --model_name_or_path, gpt2, " +
		"--per_device_train_batch_size, \"2\", --block_size, \"64\", --do_train]\n      resources: {limits: " +
		"{nvidia.com/gpu: 1}}\n"))
	s, _ := sourceOf(archive)
	s.HasGPU = func(name string) bool { return name == "known" }
	answer, err := readers.Read(context.Background(), s)
	if err != nil || len(answer.Jobs) != 1 {
		t.Fatalf("%v: %+v", err, answer)
	}
	if strings.Contains(string(answer.Jobs[0].Document), "Unheard") {
		t.Errorf("the document names the card: %s", answer.Jobs[0].Document)
	}
	said := ""
	for _, a := range answer.Jobs[0].Assumptions {
		said += a.Say
	}
	if !strings.Contains(said, "NVIDIA-Unheard-9000 (pod.yaml:5) is no card of the catalog") {
		t.Errorf("nothing says so: %q", said)
	}
}
