package defaults

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/vramplan/vramplan/estimator/job"
)

// What a framework takes is filled in where a job says nothing, by release and by the type of the checkpoint.
func TestFilled(t *testing.T) {
	for _, tt := range []struct{ name, job, want string }{
		{"no framework", `{"model":{"preset":"Qwen/Qwen2.5-0.5B"},"training":{}}`, `{}`},
		{"its own loop", `{"model":{"preset":"gpt2"},"training":{"framework":"pytorch"}}`, `{"framework":"pytorch"}`},
		{"the Trainer loads a checkpoint in its own type since 5.0",
			`{"model":{"preset":"Qwen/Qwen2.5-0.5B"},"training":{"framework":"hf-trainer"}}`,
			`{"framework":"hf-trainer","micro_batch":8,"precision":"bf16","optimizer":{"name":"adamw","implementation":"fused"}}`},
		{"and in float32 before, by an optimizer that is fused from torch 2.8 on",
			`{"model":{"preset":"Qwen/Qwen2.5-0.5B"},"training":{"framework":"hf-trainer",
				"versions":{"transformers":"4.57.6","torch":"2.7.1"}}}`,
			`{"framework":"hf-trainer","micro_batch":8,"precision":"fp32","optimizer":{"name":"adamw","implementation":"foreach"},
				"versions":{"transformers":"4.57.6","torch":"2.7.1"}}`},
		{"a type that nobody knows is float32", `{"model":{"hf_config":{"model_type":"llama"}},"training":{"framework":"hf-trainer"}}`,
			`{"framework":"hf-trainer","micro_batch":8,"precision":"fp32","optimizer":{"name":"adamw","implementation":"fused"}}`},
		{"what is said wins", `{"model":{"hf_config":{"torch_dtype":"float16"}},"training":{"framework":"hf-trainer","micro_batch":1,
				"precision":"fp32","optimizer":{"name":"sgd"},"evaluation":{"micro_batch":2}}}`,
			`{"framework":"hf-trainer","micro_batch":1,"precision":"fp32","optimizer":{"name":"sgd"},"evaluation":{"micro_batch":2}}`},
		{"autocast over half weights", `{"model":{"hf_config":{"dtype":"bfloat16"}},"training":{"framework":"hf-trainer",
				"precision":"amp-bf16","evaluation":{}}}`,
			`{"framework":"hf-trainer","micro_batch":8,"precision":"amp-bf16","states":{"weights":"bf16"},
				"optimizer":{"name":"adamw","implementation":"fused"},"evaluation":{"micro_batch":8}}`},
		{"GradScaler takes no gradients in fp16", `{"model":{"hf_config":{"dtype":"float16"}},"training":{"framework":"hf-trainer",
				"precision":"amp-fp16"}}`,
			`{"framework":"hf-trainer","micro_batch":8,"precision":"amp-fp16","optimizer":{"name":"adamw","implementation":"fused"}}`},
		{"trl", `{"model":{"preset":"Qwen/Qwen2.5-0.5B"},"training":{"framework":"trl","lora":{"rank":4}}}`,
			`{"framework":"trl","micro_batch":8,"sequence_length":1024,"precision":"amp-bf16","gradient_checkpointing":{"mode":"full"},
				"optimizer":{"name":"adamw","implementation":"fused"},"lora":{"rank":4,"base_precision":"fp32"}}`},
		{"an older trl", `{"model":{"preset":"Qwen/Qwen2.5-0.5B"},"training":{"framework":"trl","versions":{"trl":"0.18.2",
				"transformers":"4.52.4"}}}`,
			`{"framework":"trl","micro_batch":8,"sequence_length":1024,"precision":"fp32","optimizer":{"name":"adamw",
				"implementation":"foreach"},"versions":{"trl":"0.18.2","transformers":"4.52.4"}}`},
		{"DeepSpeed stores as it computes", `{"model":{"preset":"Qwen/Qwen2.5-0.5B"},"training":{"framework":"trl",
				"distributed":{"world_size":2,"data":"zero2"}}}`,
			`{"framework":"trl","micro_batch":8,"sequence_length":1024,"precision":"bf16","gradient_checkpointing":{"mode":"full"},
				"optimizer":{"name":"adamw","implementation":"fused"},"distributed":{"world_size":2,"data":"zero2"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var given job.Job
			var want job.Training
			if err := json.Unmarshal([]byte(tt.job), &given); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			before, _ := json.Marshal(given)
			got := Filled(given)
			if !reflect.DeepEqual(got.Training, want) {
				text, _ := json.Marshal(got.Training)
				t.Errorf("%s\nwant %s", text, tt.want)
			}
			if again := Filled(got); !reflect.DeepEqual(again, got) {
				t.Errorf("filled twice it is %+v", again.Training)
			}
			if after, _ := json.Marshal(given); string(after) != string(before) {
				t.Errorf("the job itself was changed: %s", after)
			}
		})
	}
}
