package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/api"
)

const tinyJob = `{"model": {"preset": "gpt2"}, "training": {"micro_batch": %d, "sequence_length": 128}, "gpus": ["rtx-4090"]}`

func askBatch(t *testing.T, contentType, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/estimate/batch?brief=true", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	newAPI(api.Options{}).ServeHTTP(w, r)
	return w
}

// An array gets an array, element by element the bytes that lines get.
func TestBatchOfAnArray(t *testing.T) {
	a, b := fmt.Sprintf(tinyJob, 1), fmt.Sprintf(tinyJob, 2)
	lines := askBatch(t, "application/x-ndjson", a+"\n{\"model\": {}}\n"+b+"\n")
	array := askBatch(t, "application/json", " \n[ "+a+",\n {\"model\": {}} , "+b+"]\n")
	if got := array.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("an array is answered by %s", got)
	}
	var got []json.RawMessage
	if err := json.Unmarshal(array.Body.Bytes(), &got); err != nil {
		t.Fatalf("%s: %v", array.Body, err)
	}
	want := strings.Split(strings.TrimSpace(strings.ReplaceAll(lines.Body.String(), "#line=", "#element=")), "\n")
	if len(got) != 3 || len(want) != 3 {
		t.Fatalf("%d elements and %d lines are answered", len(got), len(want))
	}
	for i := range got {
		if string(bytes.TrimSpace(got[i])) != want[i] {
			t.Errorf("element %d is\n%s\nline %d is\n%s", i, got[i], i, want[i])
		}
	}
}

func TestBatchOfABrokenArray(t *testing.T) {
	job := fmt.Sprintf(tinyJob, 1)
	for _, c := range []struct {
		body    string
		answers int
		wrong   string // what the last answer says; empty where it is an estimate
	}{
		{"[]", 0, ""},
		{" [ \n ] ", 0, ""},
		{"[" + job + "]", 1, ""},
		{"[" + job, 1, "its ] is missing"},
		{"[", 1, "its ] is missing"},
		{"[" + job + ",]", 2, "invalid_document"},
		{"[1, \"a, ]\\\" b\", [2, {}]]", 3, "a list was given"},
		{"[" + job + "] " + job, 2, "behind the end of the array"},
		{"[" + strings.Repeat(" ", 1<<20) + job + "]", 1, "The element is longer than 1 MiB"},
	} {
		w := askBatch(t, "application/json", c.body)
		var got []struct{ Detail, Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Errorf("%.40s: %.200s: %v", c.body, w.Body, err)
			continue
		}
		if len(got) != c.answers {
			t.Errorf("%.40s: %d answers, want %d: %.300s", c.body, len(got), c.answers, w.Body)
			continue
		}
		if c.answers == 0 {
			continue
		}
		last := got[len(got)-1]
		if c.wrong == "" && last.Code != "" || c.wrong != "" && !strings.Contains(last.Detail+" "+last.Code, c.wrong) {
			t.Errorf("%.40s: the last answer is %+v, want %q", c.body, last, c.wrong)
		}
	}
}

// A client's id comes back with what became of its job, and is no part of the job.
func TestBatchSendsIDsBack(t *testing.T) {
	job := fmt.Sprintf(tinyJob, 1)
	with := func(id string) string { return strings.Replace(job, "{", `{"id": `+id+`, `, 1) }
	plain := askBatch(t, "application/x-ndjson", job).Body.String()
	w := askBatch(t, "application/x-ndjson",
		strings.Join([]string{with(`"a"`), with(`7`), with(`{"x": 1}`), `{"id": "b", "model": {}}`,
			with(`"` + strings.Repeat("x", 300) + `"`)}, "\n"))
	lines := strings.SplitAfter(strings.TrimSuffix(w.Body.String(), "\n"), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines: %s", len(lines), w.Body)
	}
	for i, id := range []string{`"a"`, "7"} {
		if want := strings.Replace(plain, "{", `{"id":`+id+`,`, 1); lines[i] != want {
			t.Errorf("line %d is %s, want %s", i+1, lines[i], want)
		}
	}
	for i, want := range map[int]string{2: `"pointer":"/id"`, 3: `{"id":"b","type":"/problems/`, 4: `"pointer":"/id"`} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d is %s, without %s", i+1, lines[i], want)
		}
	}
	// One job alone has no id: whoever asks knows which it is.
	r := httptest.NewRequest(http.MethodPost, "/v1/estimate", strings.NewReader(with(`"a"`)))
	r.Header.Set("Content-Type", "application/json")
	one := httptest.NewRecorder()
	newAPI(api.Options{}).ServeHTTP(one, r)
	if one.Code != http.StatusBadRequest {
		t.Errorf("an id outside a batch gets %d", one.Code)
	}
}
