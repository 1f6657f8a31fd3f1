package jobdoc

import (
	"strings"
	"testing"
)

func TestSet(t *testing.T) {
	for _, c := range []struct{ document, fields, want string }{
		{`{}`, "model=gpt2 micro_batch=4 gpu=t4,a100", `{"model":{"preset":"gpt2"},"training":{"micro_batch":4},"gpus":["t4","a100"]}`},
		{`{}`, "display=true reserve_bytes=5 confidence=0.9", `{"display":true,"reserve_bytes":5,"confidence":0.9}`},
		{`{}`, "optimizer.implementation=fused optimizer=adamw",
			`{"training":{"optimizer":{"implementation":"fused","name":"adamw"}}}`},
		{`{}`, "objective=dpo objective.prompt_tokens=256",
			`{"training":{"objective":{"kind":"dpo","prompt_tokens":256}}}`},
		{`{"training":{"dropout":0.1,"compile":true}}`, "dropout.attention=0 compile.loss=false",
			`{"training":{"dropout":{"attention":0,"hidden":0.1},"compile":{"loss":false,"model":true}}}`},
		{`{}`, "distributed.tensor_parallel=2 training.micro_batch=1",
			`{"training":{"distributed":{"tensor_parallel":2},"micro_batch":1}}`},
		{`{"training":7}`, "micro_batch=1", `{"training":{"micro_batch":1}}`},
	} {
		document := []byte(c.document)
		for field := range strings.FieldsSeq(c.fields) {
			name, value, _ := strings.Cut(field, "=")
			var err error
			if document, err = Set(document, name, value); err != nil {
				t.Fatalf("%s: %v", field, err)
			}
		}
		if string(document) != c.want {
			t.Errorf("%s after %s is\n%s, want\n%s", c.document, c.fields, document, c.want)
		}
	}
	for _, field := range []string{"", "training", "a.0", "a*", "gpus.100000000.name", strings.Repeat("a", 100)} {
		if _, err := Set([]byte("{}"), field, "1"); err == nil {
			t.Errorf("%q is a field", field)
		}
	}
}
