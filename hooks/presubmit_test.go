// Package hooks_test runs what lies in this directory with a real vramplan.
package hooks_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	gpt2 = "#!/bin/sh\n#SBATCH --gres=gpu:rtx4070:1\n#VRAMPLAN model=nanogpt/train_gpt2 gradient_accumulation=32 " +
		"optimizer.implementation=fused "
	tooLarge = gpt2 + "micro_batch=16\ntrue\n"
	fits     = gpt2 + "micro_batch=4\ntrue\n"
	plain    = "#!/bin/sh\n#SBATCH --gres=gpu:rtx4070:1\npython evaluate.py\n"
)

// launch does not fit on the card, and every word of it is understood.
const (
	header = "#!/bin/bash\n#SBATCH --gres=gpu:rtx4070:1\n"
	launch = "python run_clm.py --model_name_or_path gpt2 --do_train --per_device_train_batch_size 64 --bf16"
)

// unknownWords are launches with a word that vramplan does not know, or in a way of which it cannot tell what runs.
var unknownWords = map[string]string{
	"adapter": launch + " --lora_rank 8", "quantisation": launch + " --bits 4", "sharding": launch + " --zero_stage 3",
	"offload":   launch + " --cpu_offload",
	"precision": launch + " --pure_bf16", "model": launch + " --config_overrides n_layer=2", "option": launch +
		" --my_flag", "variable": launch + " $EXTRA",
	"launcher":    "accelerate launch --use_fsdp " + launch[len("python "):],
	"environment": "export ACCELERATE_USE_FSDP=1\n" + launch, "branch": "if [ -f big ]; then " + launch + "; fi",
	"attempt": launch + " || python small.py", "rewritten": "sed -i s/2/1/ args.json\npython run_clm.py args.json",
}

// workplace is a directory with scripts, and a vramplan in front of the PATH.
type workplace struct {
	dir string
	env []string
}

func newWorkplace(t *testing.T) *workplace {
	t.Helper()
	for _, program := range []string{"bash", "timeout", "head"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	w := &workplace{dir: t.TempDir()}
	if out, err := exec.Command("go", "build", "-o", filepath.Join(w.dir, "vramplan"),
		"github.com/vramplan/vramplan/cmd/vramplan").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	w.env = append(os.Environ(), "VRAMPLAN_ADVICE_TIMEOUT=8s", "PATH="+w.dir+string(os.PathListSeparator)+
		os.Getenv("PATH"))
	w.put(t, "jobs/too_large.sh", tooLarge)
	w.put(t, "jobs/fits.sh", fits)
	w.put(t, "jobs/plain.sh", plain)
	w.put(t, "jobs/understood.sh", header+launch+"\n")
	for name, script := range unknownWords {
		w.put(t, "jobs/"+name+".sh", header+script+"\n")
	}
	return w
}

func (w *workplace) put(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// run executes a command and returns what it prints and its exit code.
func (w *workplace) run(t *testing.T, env []string, name string, args ...string) (string, int) {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir, c.Env = w.dir, append(w.env, env...)
	c.WaitDelay = time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), c.ProcessState.ExitCode()
}

func TestPreSubmit(t *testing.T) {
	w := newWorkplace(t)
	hook, err := filepath.Abs("pre-submit.sh")
	if err != nil {
		t.Fatal(err)
	}
	program := func(name, text string) string { return "VRAMPLAN=" + w.put(t, name, "#!/bin/sh\n"+text) }
	const short, long = "VRAMPLAN_HOOK_SECONDS=0.3", "VRAMPLAN_HOOK_SECONDS=10"
	tests := []struct {
		name, script string
		env          []string
		args         []string
		refused      bool   // in mode enforce
		says         string // in modes warn and enforce
	}{
		{name: "does not fit", script: "jobs/too_large.sh", refused: true,
			says: "batch_size = 8, gradient_accumulation_steps = 64"},
		{name: "the override is named", script: "jobs/too_large.sh", refused: true, says: "VRAMPLAN_OVERRIDE='REASON'"},
		{name: "fits", script: "jobs/fits.sh"},
		{name: "fits another card", script: "jobs/too_large.sh", args: []string{"--gpu", "NVIDIA H100 80GB HBM3"}},
		{name: "no training", script: "jobs/plain.sh"},
		{name: "a reason", script: "jobs/too_large.sh", env: []string{"VRAMPLAN_OVERRIDE=measured"},
			says: "let through (measured)"},
		{name: "a job that a script starts", script: "jobs/understood.sh", refused: true, says: "does not fit: "},
		{name: "an unknown card", script: "jobs/too_large.sh", args: []string{"--gpu", "rtx-4071"},
			says: "vramplan check: "},
		{name: "a script that is not there", script: "jobs/nothing.sh", says: "vramplan check: "},
		{name: "an option that is not there", script: "jobs/too_large.sh", args: []string{"--no-such-flag"},
			says: "was not checked"},
		{name: "missing", script: "jobs/too_large.sh", env: []string{"VRAMPLAN=/nowhere"}, says: "was not checked"},
		{name: "hanging", script: "jobs/too_large.sh", env: []string{program("hang", "sleep 60"), short},
			says: "was not checked"},
		{name: "crashing", script: "jobs/too_large.sh", env: []string{program("crash", "kill -SEGV $$")},
			says: "was not checked"},
		{name: "failing without a word", script: "jobs/too_large.sh", env: []string{program("one", "exit 1")},
			says: "was not checked"},
		{name: "failing with nonsense", script: "jobs/too_large.sh",
			env: []string{program("nonsense", "head -c 5000 /dev/urandom; exit 1")}, says: "was not checked"},
		{name: "printing without end", script: "jobs/too_large.sh", env: []string{program("endless", "yes"), short},
			says: "was not checked"},
		{name: "a service that is gone", script: "jobs/fits.sh", env: []string{"VRAMPLAN_SERVER=http://127.0.0.1:1"},
			says: "worked out here"},
	}
	for _, name := range slices.Sorted(maps.Keys(unknownWords)) {
		test := tests[0]
		test.name, test.script, test.refused, test.says = "a word that it does not know: "+name, "jobs/"+name+".sh",
			false, "vramplan check: no "
		if tests = append(tests, test); name == "rewritten" {
			tests[len(tests)-1].says = "args.json is, or may be, written by the script before (sed"
		}
	}
	for _, tt := range tests {
		for _, mode := range []string{"audit", "warn", "enforce", "nonsense"} {
			t.Run(tt.name+"/"+mode, func(t *testing.T) {
				out, code := w.run(t, append([]string{"VRAMPLAN_MODE=" + mode, long}, tt.env...), hook,
					append(tt.args, tt.script)...)
				want := 0
				if tt.refused && mode == "enforce" {
					want = 1
				}
				silent := mode == "audit" || mode == "nonsense" || tt.says == ""
				if code != want || silent != (out == "") || !silent && !strings.Contains(out, tt.says) {
					t.Errorf("ends with %d, want %d; says, where %q was expected:\n%s", code, want, tt.says, out)
				}
			})
		}
	}
	if out, code := w.run(t, nil, hook); code != 0 || !strings.HasPrefix(out, "usage: ") {
		t.Errorf("without arguments: %d %s", code, out)
	}
}
