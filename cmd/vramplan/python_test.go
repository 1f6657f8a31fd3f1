package main

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/api"
)

// pythonRuns uses hooks/python/vramplan_callback.py as a training script would, with and without the
// Trainer, and where the service says no or is not there.
const pythonRuns = `
import sys
sys.path.insert(0, sys.argv[1])
import vramplan_callback as v

url, key = sys.argv[2], sys.argv[3]
job = {"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}, "gpus": ["rtx-4090"]}
answer = v.report(job, measured={"allocated_bytes": 3000000000}, url=url, key=key, run="run-1")
assert answer["measured"]["allocated_bytes"] == 3000000000, answer
again = v.report(job, measured={"allocated_bytes": 3000000000}, url=url + "/", key=key, run="run-1")
assert again["id"] == answer["id"], again

v.measure = lambda out_of_memory=False: {"allocated_bytes": 4000000000, "out_of_memory": True}
class State: is_world_process_zero = True
callback = v.VramplanCallback(job, url=url, key=key)
callback.on_train_end(None, State(), None)
State.is_world_process_zero = False
callback.on_train_end(None, State(), None)

assert v.report(job, measured={}, url=url, key=key) is None
assert v.report(job, measured={"allocated_bytes": 1}, url=url, key="wrong") is None
assert v.report(job, measured={"allocated_bytes": 1}, url="http://127.0.0.1:1", key=key) is None
assert v.report({"not json": object()}, measured={}, url=url, key=key) is None
`

func TestPythonHook(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	hook, err := filepath.Abs("../../hooks/python")
	if err != nil {
		t.Fatal(err)
	}
	database := "file:" + t.TempDir() + "/vramplan.db"
	key := newKey(t, database)
	p := startService(t, database, t.TempDir())
	script := exec.Command(python, "-B", "-c", pythonRuns, hook, p.url, key) // -B: no __pycache__ in the repository
	out, err := script.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := strings.Count(string(out), "the run was not reported: "); got != 4 {
		t.Errorf("%d of 4 failures were said: %s", got, out)
	}
	var list api.ObservationList
	r := ask(newClient(), http.MethodGet, p.url+"/v1/observations", "")
	if err := json.Unmarshal(r.body, &list); err != nil || len(list.Observations) != 2 {
		t.Fatalf("%d observations, %v: %s", len(list.Observations), err, r.body)
	}
	if o := list.Observations[0]; o.Source != "hf-callback" || !o.Measured.OutOfMemory {
		t.Errorf("the Trainer's run: %+v", o)
	}
}
