package api_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestLifeOfARecordedModel: a recording is stored once and planned by its id afterwards, as it is when it is sent
// along.
func TestLifeOfARecordedModel(t *testing.T) {
	h := newDemo(t)
	text, err := os.ReadFile("../estimator/testdata/recordings/family/gpt2.json")
	if err != nil {
		t.Fatal(err)
	}
	recording := string(text)
	job := func(model string) string {
		return `{"model": ` + model + `, "training": {"micro_batch": 2, "sequence_length": 64}, "gpus": ["rtx-4090"]}`
	}
	peak := func(model string) string {
		t.Helper()
		w := call(h, "POST", "/v1/estimate", job(model))
		if w.Code != 200 {
			t.Fatalf("%.80s: %d %s", model, w.Code, w.Body)
		}
		var answer struct {
			Peak  json.RawMessage `json:"peak"`
			Model struct {
				Name string `json:"name"`
			} `json:"model"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		return string(answer.Peak)
	}
	refused := func(status int, want, method, target, body string, headers ...string) {
		t.Helper()
		if w := call(h, method, target, body, headers...); w.Code != status ||
			!strings.Contains(w.Body.String(), want) {
			t.Errorf("%s %s: %d %s, without %q", method, target, w.Code, w.Body, want)
		}
	}

	entry := `{"aliases": ["my run"], "recorded": ` + recording + `}`
	refused(401, "", "PUT", "/v1/models/lab/mine", entry, creating)
	refused(422, "/recorded/vramplan_recording", "PUT", "/v1/models/lab/mine", `{"recorded": {}}`, withKey, creating)
	refused(422, "/recorded", "PUT", "/v1/models/lab/mine", `{"hidden": 8, "recorded": `+recording+`}`, withKey,
		creating)
	refused(422, "/family", "PUT", "/v1/models/lab/mine", `{}`, withKey, creating)
	refused(422, "/model/recorded/id", "POST", "/v1/estimate", job(`{"recorded": {"id": "lab/mine"}}`))

	w := call(h, "PUT", "/v1/models/lab/mine", entry, withKey, creating)
	if w.Code != 201 || w.Header().Get("Etag") == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	sent := peak(`{"recorded": ` + recording + `}`)
	for _, model := range []string{`{"recorded": {"id": "lab/mine"}}`, `{"preset": "lab/mine"}`,
		`{"preset": "my run"}`} {
		if got := peak(model); got != sent {
			t.Errorf("%s: %s, and sent along %s", model, got, sent)
		}
	}
	refused(422, "is no recording", "POST", "/v1/estimate", job(`{"recorded": {"id": "openai-community/gpt2"}}`))

	list := call(h, "GET", "/v1/models?family=recorded", "")
	for _, want := range []string{`"digest":"sha256:`, `"torch":"2.15.0"`, `"layers":3`, `"precisions":["amp"`,
		`"params_check":"computed"`} {
		if !strings.Contains(list.Body.String(), want) {
			t.Errorf("the list is without %s: %s", want, list.Body)
		}
	}
	if strings.Contains(list.Body.String(), `"programs"`) {
		t.Error("the list has the recording itself")
	}
	one := call(h, "GET", "/v1/models/lab%2Fmine", "")
	again := call(h, "PUT", "/v1/models/lab/mine", one.Body.String(), withKey, "If-Match: "+one.Header().Get("Etag"))
	if again.Code != 200 {
		t.Errorf("what was read is not taken back: %d %s", again.Code, again.Body)
	}
	if w := call(h, "DELETE", "/v1/models/lab/mine", "", withKey, "If-Match: *"); w.Code != 204 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	refused(422, "/model/recorded/id", "POST", "/v1/estimate", job(`{"recorded": {"id": "lab/mine"}}`))
}
