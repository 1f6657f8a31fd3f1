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

// testdata/callback_runs.py uses hooks/python/vramplan_callback.py as a training script would: with and without the
// Trainer, with what a driver may say of the process, and where the service says no or is not there.
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
	// -B: no __pycache__ in the repository
	script := exec.Command(python, "-B", "testdata/callback_runs.py", hook, p.url, key)
	out, err := script.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := strings.Count(string(out), "the run was not reported: "); got != 4 {
		t.Errorf("%d of 4 failures were said: %s", got, out)
	}
	var list api.ObservationList
	r := ask(newClient(), http.MethodGet, p.url+"/v1/observations", "", "Authorization: Bearer "+key)
	if err := json.Unmarshal(r.body, &list); err != nil || len(list.Observations) != 3 {
		t.Fatalf("%d observations, %v: %s", len(list.Observations), err, r.body)
	}
	if o := list.Observations[0]; o.Source != "hf-callback" || !o.Measured.OutOfMemory {
		t.Errorf("the Trainer's run: %+v", o)
	}
}
