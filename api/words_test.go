package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/api"
)

// TestRefusalsSayWhatIsAccepted: a problem has one entry for each mistake, and its words lead to a job that is
// accepted.
func TestRefusalsSayWhatIsAccepted(t *testing.T) {
	h := newAPI(api.Options{})
	dimensions := func(fields string) string {
		return `{"model": {"dimensions": {"layers": 2, "hidden": 64, "heads": 4, "vocab": 100` + fields +
			`}}, "training": {"micro_batch": 1}}`
	}
	gpt2 := func(training, rest string) string {
		return `{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1` + training + `}` + rest + `}`
	}
	for _, c := range []struct{ name, job, pointer, detail string }{
		{"one kernel instead of a list", gpt2(`, "kernels": "rmsnorm"`, ""), "/training/kernels",
			"accepted: a list, each item a string (rmsnorm, "},
		{"one GPU instead of a list", gpt2("", `, "gpus": "rtx-4070"`), "/gpus",
			"accepted: a list, each item a string, or an object with name, memory_bytes"},
		{"a card of no memory", gpt2("", `, "gpus": [{"name": "mine", "memory_bytes": 0}]`), "/gpus/0/memory_bytes",
			"accepted: a whole number from 1"},
		{"experts of a dense model", dimensions(`, "experts_per_token": 2`), "/model/dimensions/experts_per_token",
			"belongs to a mixture of experts; give experts"},
		{"a part of no rotation", dimensions(`, "position": "learned", "rotary_fraction": 0.5`),
			"/model/dimensions/rotary_fraction", "belongs to the position rope; here it is learned"},
		{"no part of a rotation", dimensions(`, "rotary_fraction": 0`), "/model/dimensions/rotary_fraction",
			"0 was given; accepted: a number from 0.001 to 1"},
		{"no MLP", dimensions(`, "ffn": 0`), "/model/dimensions/ffn", "0 was given; accepted: a whole number from 1"},
		{"a null that is no default",
			`{"model": {"hf_config": {"model_type": "llama", "num_hidden_layers": null}}, "training": {"micro_batch": 1}}`, "/model/hf_config/num_hidden_layers", "is null; give a whole number, or leave the key out for the default of the family, 32"},
		{"a head where there is no choice",
			`{"model": {"preset": "openai/clip-vit-base-patch32", "head": {"kind": "none"}}, "training": {"micro_batch": 1}}`, "/model/head/kind", "it comes with its own; leave head out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := do(h, http.MethodPost, "/v1/estimate", "application/json", c.job)
			var p struct {
				Errors []struct{ Pointer, Detail string }
			}
			if err := json.Unmarshal([]byte(read(t, res)), &p); err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != http.StatusUnprocessableEntity || len(p.Errors) != 1 ||
				p.Errors[0].Pointer != c.pointer || !strings.Contains(p.Errors[0].Detail, c.detail) {
				t.Errorf("got %d with %v, want %s with %q", res.StatusCode, p.Errors, c.pointer, c.detail)
			}
		})
	}
}

// TestNotesFitTheJob asks for notes that a job has, and for some that it has not.
func TestNotesFitTheJob(t *testing.T) {
	h := newAPI(api.Options{})
	for _, c := range []struct {
		name, job, code string
		want            string // in its text; empty for no such note
	}{
		{"a decoder's cache", `{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1, "framework": "accelerate"}}`,
			"kv-cache", "key/value cache"},
		{"which the Trainer switches off", `{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}}`, "kv-cache", ""},
		{"an encoder has none", `{"model": {"preset": "bert-base-uncased"}, "training": {"micro_batch": 1}}`,
			"kv-cache", ""},
		{"nor have pictures", `{"model": {"preset": "google/vit-base-patch16-224"}, "training": {"micro_batch": 1}}`,
			"kv-cache", ""},
		{"a long context", `{"model": {"preset": "meta-llama/Llama-3.1-8B"}, "training": {"micro_batch": 1}}`,
			"whole-context", "131,072 tokens"},
		{"cuDNN's attention", `{"model": {"preset": "meta-llama/Llama-3.1-8B"}, "training": {"micro_batch": 1,
			"sequence_length": 2048, "precision": "bf16"}, "gpus": ["h100-sxm5"]}`, "cudnn-attention", "engine"},
		{"flash attention", `{"model": {"preset": "meta-llama/Llama-3.1-8B"}, "training": {"micro_batch": 1,
			"sequence_length": 2048, "precision": "bf16"}, "gpus": ["a100-sxm4-80gb"]}`, "cudnn-attention", ""},
		{"a given length", `{"model": {"preset": "meta-llama/Llama-3.1-8B"}, "training": {"micro_batch": 1, "sequence_length": 16384}}`, "whole-context", ""},
		{"cards of two kinds",
			`{"model": {"preset": "gpt2"}, "training": {"micro_batch": 4}, "gpus": ["t4", "rtx-4090"]}`, "first-card",
			"those on t4, the first card"},
		{"cards of one kind", `{"model": {"preset": "gpt2"}, "training": {"micro_batch": 4}, "gpus": ["rtx-4070", "rtx-4070"]}`, "first-card", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := read(t, do(h, http.MethodPost, "/v1/estimate", "application/json", c.job))
			var answer struct {
				Notes []struct{ Code, Text string }
			}
			if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Notes) == 0 {
				t.Fatalf("%v: %s", err, body)
			}
			text := ""
			for _, n := range answer.Notes {
				if n.Code == c.code {
					text = n.Text
				}
			}
			if (text == "") != (c.want == "") || !strings.Contains(text, c.want) {
				t.Errorf("the note %s is %q, want %q", c.code, text, c.want)
			}
		})
	}
}
