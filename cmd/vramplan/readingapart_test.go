package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// TestReadingsApart: a service reads strangers' files in processes of their own. What takes too much is refused within
// seconds and leaves nothing behind; jobs of files, patches and users' models are what they are in the process.
func TestReadingsApart(t *testing.T) {
	database, client := "file:"+t.TempDir()+"/vramplan.db", newClient()
	key := newKey(t, database)
	p := startService(t, database, t.TempDir())
	post := func(path string, body any) reply {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		return ask(client, http.MethodPost, p.url+path, string(text), "Content-Type: application/json")
	}
	for what, files := range map[string]map[string]string{
		"commands times program": {"train.py": "from transformers import TrainingArguments\n" +
			strings.Repeat("TrainingArguments(per_device_train_batch_size=4)\n", 5000),
			"job.sh": strings.Repeat("python train.py\n", 60)},
		"branches": {"job.sh": strings.Repeat("if [ $A ]; then B=$B$A$A; fi\n", 1900) + "python train.py $B\n"},
	} {
		began := time.Now()
		r := post("/v1/read", map[string]any{"files": files})
		if r.status != http.StatusOK && (r.status != http.StatusUnprocessableEntity ||
			!strings.Contains(string(r.body), "takes more than 1 seconds of a core or 256 MiB")) {
			t.Errorf("%s: %d %.300s", what, r.status, r.body)
		}
		t.Logf("%s: %d after %v", what, r.status, time.Since(began))
	}
	leak, err := os.ReadFile("../../service/testdata/snapshots/leak.pickle.gz")
	if err != nil {
		t.Fatal(err)
	}
	job, err := os.ReadFile("../../service/testdata/snapshots/leak.json")
	if err != nil {
		t.Fatal(err)
	}
	held := post("/v1/diagnose", map[string]any{"snapshot": leak, "job": json.RawMessage(job)})
	if held.status != http.StatusOK || gjson.GetBytes(held.body, "held.departures.#").Int() != 2 {
		t.Errorf("%d %.300s", held.status, held.body)
	}
	var lists bytes.Buffer
	w := gzip.NewWriter(&lists)
	if _, err := w.Write([]byte("]" + strings.Repeat("]a", 20<<20) + ".")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for what, tt := range map[string]struct {
		snapshot any
		words    string
	}{
		"a gigabyte of lists": {lists.Bytes(), "takes more than 1 seconds of a core or 256 MiB"},
		"a program":           {[]byte("cos\nsystem\n(S'touch owned'\ntR."), "nothing of it was run"},
		"no base64":           {"!!!!", "illegal base64 data"},
	} {
		r := post("/v1/diagnose", map[string]any{"snapshot": tt.snapshot})
		if r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.body), tt.words) ||
			gjson.GetBytes(r.body, "errors.0.pointer").String() != "/snapshot" {
			t.Errorf("%s: %d %.300s", what, r.status, r.body)
		}
	}
	metrics := ask(client, http.MethodGet, p.url+"/metrics", "")
	if !strings.Contains(string(metrics.body), "\nvramplan_reading_outliving 0\n") {
		t.Error("readings outlive their requests, or nothing says so")
	}

	put := ask(client, http.MethodPut, p.url+"/v1/models/lab/mine", `{"nanogpt": {"n_layer": 2, "n_head": 2, "n_embd": 64}}`,
		"Authorization: Bearer "+key, "If-None-Match: *")
	if put.status != http.StatusCreated {
		t.Fatalf("%d %s", put.status, put.body)
	}
	const line = "python run_clm.py --model_name_or_path lab/mine --per_device_train_batch_size 4 --block_size 64 --bf16 " +
		"--do_train --dataset_name d --output_dir o"
	read := post("/v1/read", map[string]any{"command": line})
	if model := gjson.GetBytes(read.body, "jobs.0.document.model.preset").String(); model != "lab/mine" ||
		strings.Contains(string(read.body), "The catalog has no") {
		t.Errorf("a user's model is %q: %s", model, read.body)
	}
	plan := post("/v1/plan", map[string]any{"gpus": []string{"rtx-4070"}, "effective_batch": 512, "reading": map[string]any{
		"files": map[string]string{"job.sh": "python run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 64 " +
			"--gradient_accumulation_steps 8 --block_size 1024 --bf16 --do_train --dataset_name d --output_dir o\n"}}})
	if diff := gjson.GetBytes(plan.body, "patch.diff").String(); !strings.Contains(diff, "-python run_clm.py") {
		t.Errorf("%d, the patch is %q of %.500s", plan.status, diff, plan.body)
	}
}
