package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/openapi/demo"
	"github.com/vramplan/vramplan/service"
)

func observation(training, measured string) string {
	return fmt.Sprintf(`{"job": {"model": {"preset": "gpt2"}, "training": {%s}, "gpus": ["a100-40gb"]}, "measured": {%s}}`, training, measured)
}

func TestObservationsAreChecked(t *testing.T) {
	h := newDemo(t)
	for _, c := range []struct {
		name, body string
		status     int
		pointers   string
	}{
		{"allocated", observation(`"micro_batch": 1`, `"allocated_bytes": 3000000000`), 201, ""},
		{"all", observation(`"micro_batch": 1`, `"allocated_bytes": 1, "reserved_bytes": 1, "device_bytes": 2`), 201,
			""},
		{"out of memory", observation(`"micro_batch": 1`, `"out_of_memory": true`), 201, ""},
		{"nothing", observation(`"micro_batch": 1`, ``), 422, "/measured"},
		{"not out of memory", observation(`"micro_batch": 1`, `"out_of_memory": false`), 422, "/measured"},
		{"parts that are more than the whole",
			observation(`"micro_batch": 1`, `"allocated_bytes": 3, "device_bytes": 2`), 422, "/measured/device_bytes"},
		{"negative", observation(`"micro_batch": 1`, `"allocated_bytes": -3`), 422, "/measured/allocated_bytes"},
		{"a job that is none", observation(`"micro_batch": 0`, ``), 422, "/job/training/micro_batch"},
		{"a job that is not modelled, too", observation(`"micro_batch": 1, "sequence_length": 5000`, ``), 422,
			"/job/training/sequence_length /measured"},
		{"no card", `{"job": {"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}}, "measured": {"device_bytes": 1}}`, 422, "/job/gpus"},
		{"all cards", `{"job": {"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}, "gpus": ["*"]}, "measured": {"device_bytes": 1}}`, 422, "/job/gpus"},
		{"an unknown card", `{"job": {"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}, "gpus": ["x"]}, "measured": {"device_bytes": 1}}`, 422, "/job/gpus/0"},
		{"a card with a NUL", `{"job": {"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}, "gpus": [{"name": "x\u0000", "memory_bytes": 1000000000}]}, "measured": {"device_bytes": 1}}`, 422, "/job/gpus/0"},
		{"an unknown field", `{"job": {}, "measurd": {}}`, 400, "/job/model /job/training/micro_batch /measurd"},
		{"not JSON", `{`, 400, ""},
	} {
		w := call(h, "POST", "/v1/observations", c.body, withKey)
		var p struct{ Errors []struct{ Pointer string } }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		var pointers []string
		for _, e := range p.Errors {
			if e.Pointer != "" {
				pointers = append(pointers, e.Pointer)
			}
		}
		if got := strings.Join(pointers, " "); w.Code != c.status || got != c.pointers {
			t.Errorf("%s: status %d at %q, want %d at %q: %s", c.name, w.Code, got, c.status, c.pointers, w.Body)
		}
	}
	if w := call(h, "POST", "/v1/observations", observation(`"micro_batch": 1`, `"device_bytes": 1`),
		"Authorization: Bearer "+demo.ReadKey); w.Code != 201 {
		t.Errorf("a key for observations: %d %s", w.Code, w.Body)
	}
	if w := call(h, "POST", "/v1/observations", observation(`"micro_batch": 1`, `"device_bytes": 1`)); w.Code != 401 {
		t.Errorf("no key: %d %s", w.Code, w.Body)
	}
}

func TestObservationsAreStoredOnce(t *testing.T) {
	h := newDemo(t)
	body := observation(`"micro_batch": 1`, `"device_bytes": 4000000000`)
	first := call(h, "POST", "/v1/observations", body, withKey, "Idempotency-Key: a")
	again := call(h, "POST", "/v1/observations", " "+body, withKey, "Idempotency-Key: a")
	if first.Code != 201 || again.Code != 200 || first.Body.String() != again.Body.String() {
		t.Errorf("%d %s\n%d %s", first.Code, first.Body, again.Code, again.Body)
	}
	if w := call(h, "POST", "/v1/observations", observation(`"micro_batch": 2`, `"device_bytes": 4000000000`), withKey,
		"Idempotency-Key: a"); w.Code != 422 || !strings.Contains(w.Body.String(), "idempotency_key_reused") {
		t.Errorf("another observation of the same key: %d %s", w.Code, w.Body)
	}
	if w := call(h, "POST", "/v1/observations", body, withKey, "Idempotency-Key: \x01"); w.Code != 400 {
		t.Errorf("a key that is none: %d", w.Code)
	}
	batch := body + "\n\n{\n" + body + "\n"
	for range 2 {
		w := call(h, "POST", "/v1/observations", batch, withKey, "Idempotency-Key: b",
			"Content-Type: application/x-ndjson")
		lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
		if w.Code != 200 || len(lines) != 3 || !strings.Contains(lines[0], `"id":"obs-`) ||
			!strings.Contains(lines[1], "#line=3") || !strings.Contains(lines[2], `"id":"obs-`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	var list api.ObservationList
	if err := json.Unmarshal(call(h, "GET", "/v1/observations?gpu=a100-40gb", "", withKey).Body.Bytes(), &list); err != nil || len(list.Observations) != 3 {
		t.Errorf("%d observations, %v", len(list.Observations), err)
	}
}

// What is far off is kept and left out of the report; a run out of memory contradicts "fits".
func TestAccuracyReport(t *testing.T) {
	h := newDemo(t)
	var predicted service.Observation
	w := call(h, "POST", "/v1/observations", observation(`"micro_batch": 1`, `"out_of_memory": true`), withKey)
	if err := json.Unmarshal(w.Body.Bytes(), &predicted); err != nil || predicted.Predicted.Verdict != "fits" {
		t.Fatalf("%s", w.Body)
	}
	device := predicted.Predicted.DeviceBytes
	for _, measured := range []int64{device, device * 10 / 11, device * 10 / 9, 3 * device, device / 1000} {
		if w := call(h, "POST", "/v1/observations",
			observation(`"micro_batch": 1`, fmt.Sprintf(`"device_bytes": %d`, measured)), withKey); w.Code != 201 {
			t.Fatalf("%s", w.Body)
		}
	}
	var report service.Accuracy
	if err := json.Unmarshal(call(h, "GET", "/v1/accuracy?gpu=a100-40gb&family=gpt2", "").Body.Bytes(), &report); err != nil || len(report.Groups) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	g := report.Groups[0]
	if g.Runs != 4 || g.Quarantined != 2 || g.OutOfMemory != 1 || g.FitButFailed != 1 || g.Allocated != nil ||
		g.Device == nil || g.WithinBounds == nil {
		t.Fatalf("%+v", g)
	}
	if e := g.Device; e.Runs != 3 || e.Bias != 0 || fmt.Sprintf("%.2f %.2f", e.Median, e.P90) != "0.10 0.10" {
		t.Errorf("%+v", e)
	}
	if share := fmt.Sprintf("%.2f", *g.WithinBounds); share != "0.33" && share != "0.67" && share != "1.00" {
		t.Errorf("%s within the bounds", share)
	}
}
