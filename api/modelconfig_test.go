package api_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAModelByItsConfig: an entry says what it is by its config.json or by nanoGPT's numbers, which decide its bytes
// whatever it is called.
func TestAModelByItsConfig(t *testing.T) {
	h := newDemo(t)
	peak := func(id string) string {
		t.Helper()
		w := call(h, "POST", "/v1/estimate", `{"model": {"preset": "`+id+`"},
			"training": {"micro_batch": 2, "sequence_length": 64}, "gpus": ["rtx-4090"]}`)
		var answer struct {
			Peak json.RawMessage `json:"peak"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
			t.Fatalf("%s: %d %s", id, w.Code, w.Body)
		}
		return string(answer.Peak)
	}
	for copied, of := range map[string]string{"lab/phi": "microsoft/Phi-4-mini-instruct", "lab/two": "microsoft/phi-2",
		"lab/nano": "nanogpt/train_gpt2"} {
		one := call(h, "GET", "/v1/models/"+of, "")
		var entry map[string]any
		if err := json.Unmarshal(one.Body.Bytes(), &entry); err != nil {
			t.Fatalf("%s: %s", of, one.Body)
		}
		entry["id"], entry["aliases"] = copied, []string{}
		delete(entry, "alias_notes")
		body, err := json.Marshal(entry)
		if err != nil {
			t.Fatal(err)
		}
		if w := call(h, "PUT", "/v1/models/"+copied, string(body), withKey, creating); w.Code != 201 {
			t.Fatalf("%s: %d %s", copied, w.Code, w.Body)
		}
		if got, want := peak(copied), peak(of); got != want {
			t.Errorf("%s has %s, and %s %s", copied, got, of, want)
		}
	}

	const config = `{"model_type": "qwen2", "num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4,
		"num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1000}`
	w := call(h, "PUT", "/v1/models/lab/small", `{"hf_config": `+config+`}`, withKey, creating)
	for _, want := range []string{`"family":"qwen2"`, `"kind":"decoder"`, `"layers":4`, `"kv_heads":2`,
		`"head_dim":64`, `"params_check":"computed"`} {
		if w.Code != 201 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d %s is without %s", w.Code, w.Body, want)
		}
	}
	list := call(h, "GET", "/v1/models?q=lab", "").Body.String()
	if !strings.Contains(list, `"lab/small"`) || strings.Contains(list, `"hf_config"`) {
		t.Errorf("the list has the files themselves, or not the entry: %s", list)
	}

	for want, body := range map[string]string{
		"/layers":                `{"layers": 5, "hf_config": ` + config + `}`,
		"/hf_config/hidden_size": `{"hf_config": {"model_type": "qwen2", "hidden_size": -1}}`,
		"/hf_config/model_type":  `{"hf_config": {}}`,
		"/nanogpt":               `{"hf_config": ` + config + `, "nanogpt": {"n_layer": 2, "n_head": 2, "n_embd": 64}}`,
		"/nanogpt/n_layer":       `{"nanogpt": {"n_head": 2, "n_embd": 64}}`,
		"too_large":              `{"hf_config": {"model_type": "qwen2", "x": "` + strings.Repeat("x", 65<<10) + `"}}`,
	} {
		w := call(h, "PUT", "/v1/models/lab/other", body, withKey, creating)
		if w.Code != 422 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%.60s: %d %s, without %s", body, w.Code, w.Body, want)
		}
	}
}
