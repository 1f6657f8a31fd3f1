package main

import (
	"context"
	"testing"

	"github.com/tidwall/gjson"
)

func ptr[T any](v T) *T { return &v }

func TestFlagsChangeOnlyWhatTheyName(t *testing.T) {
	tests := []struct {
		name     string
		flags    jobFields
		document string
		want     string
	}{
		{"flags alone make the document",
			jobFields{modelFields: modelFields{Model: "gpt2", MicroBatch: ptr[int64](4), Compile: ptr(false)},
				cardFields: cardFields{GPU: []string{"rtx-4070", "t4"}}},
			`{}`,
			`{"model":{"preset":"gpt2"},"training":{"micro_batch":4,"compile":false},"gpus":["rtx-4070","t4"]}`},
		{"a card replaces the cards of the document",
			jobFields{cardFields: cardFields{GPU: []string{"t4"}}}, `{"gpus": ["a100", "h100"], "reserve_bytes": 5}`,
			`{"gpus": ["t4"], "reserve_bytes": 5}`},
		{"a model replaces the model of the document",
			jobFields{modelFields: modelFields{Model: "gpt2"}}, `{"model":{"nanogpt":{"n_layer":2}}}`, `{"model":{"preset":"gpt2"}}`},
		{"unknown and duplicate fields stay for their reader to report",
			jobFields{modelFields: modelFields{MicroBatch: ptr[int64](8)}},
			`{"modle":1,"gpus":[],"gpus":["x"],"training":{"micro_batch":1,"a":2}}`,
			`{"modle":1,"gpus":[],"gpus":["x"],"training":{"micro_batch":8,"a":2}}`},
		{"what is not JSON stays as it is", jobFields{modelFields: modelFields{Model: "gpt2"}}, `{"model"`, `{"model"`},
		{"what is not an object stays as it is", jobFields{modelFields: modelFields{Model: "gpt2"}}, `[1]`, `[1]`},
		{"what cannot hold a field stays as it is", jobFields{modelFields: modelFields{MicroBatch: ptr[int64](8)}}, `{"training":"fast"}`,
			`{"training":"fast"}`},
		{"null holds nothing yet", jobFields{modelFields: modelFields{MicroBatch: ptr[int64](8)}}, `{"training":null}`,
			`{"training":{"micro_batch":8}}`},
		{"an implementation keeps the optimizer's name", jobFields{modelFields: modelFields{OptimizerImpl: ptr("fused")}},
			`{"training":{"optimizer":"lion"}}`, `{"training":{"optimizer":{"name":"lion","implementation":"fused"}}}`},
		{"an implementation keeps the optimizer's object", jobFields{modelFields: modelFields{OptimizerImpl: ptr("fused")}},
			`{"training":{"optimizer":{"name":"lion","rank":4}}}`,
			`{"training":{"optimizer":{"name":"lion","rank":4,"implementation":"fused"}}}`},
		{"an optimizer with its implementation", jobFields{modelFields: modelFields{Optimizer: ptr("adam"), OptimizerImpl: ptr("fused")}},
			`{"training":{"optimizer":"lion"}}`, `{"training":{"optimizer":{"name":"adam","implementation":"fused"}}}`},
		{"names with quotes", jobFields{modelFields: modelFields{Model: `a"b\`}}, `{}`, `{"model":{"preset":"a\"b\\"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			edits, err := tt.flags.edits(t.Context(), newTerminal(nil, nil, nil, nil))
			if err != nil {
				t.Fatal(err)
			}
			got, err := apply([]byte(tt.document), edits)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Whatever the document, flags never break one that was JSON.
func FuzzApply(f *testing.F) {
	for _, seed := range []string{`{}`, `{"training":5}`, `{"training":[1]}`, `{"training":null,"gpus":{}}`,
		`{"model":{"a":[{}]}}`, `x`, ``} {
		f.Add(seed)
	}
	flags := jobFields{modelFields: modelFields{Model: "gpt2", MicroBatch: ptr[int64](4), OptimizerImpl: ptr("fused"),
		LoRARank: ptr[int64](8)}, cardFields: cardFields{GPU: []string{"t4"}}}
	edits, err := flags.edits(context.Background(), newTerminal(nil, nil, nil, nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, document string) {
		got, err := apply([]byte(document), edits)
		if err != nil {
			t.Fatalf("apply: %v", err)
		}
		if gjson.Valid(document) && !gjson.ValidBytes(got) {
			t.Fatalf("%q became %q, which is not JSON", document, got)
		}
	})
}
