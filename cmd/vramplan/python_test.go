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

// clients/python/tests/loops_alone.py uses what the wheel has for training loops on objects of its own: the documents
// that are made of them, what is said, and what a driver and a service may answer.
func TestPythonLoops(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	program, err := exec.LookPath("vramplan")
	if err != nil {
		t.Fatal(err)
	}
	wheel, err := filepath.Abs("../../clients/python")
	if err != nil {
		t.Fatal(err)
	}
	database := "file:" + t.TempDir() + "/vramplan.db"
	key := newKey(t, database)
	p := startService(t, database, t.TempDir())
	// -B: no __pycache__ in the repository
	script := exec.Command(python, "-B", filepath.Join(wheel, "tests", "loops_alone.py"), wheel, program, p.url, key)
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
	if o := list.Observations[0]; o.Source != "python-pytorch" || !o.Measured.OutOfMemory {
		t.Errorf("the loop's run: %+v", o)
	}
}
