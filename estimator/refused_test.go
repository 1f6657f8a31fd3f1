package estimator

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestNoDescriptionEndsAnEstimate asks about configurations of which some number is wrong in such a way that what
// followed from it was divided by nothing, looked for before the first layer, or cut into windows without end.
func TestNoDescriptionEndsAnEstimate(t *testing.T) {
	const training, adapted = `{"micro_batch":1,"sequence_length":16}`,
		`{"micro_batch":1,"sequence_length":16,"lora":{"rank":8,"target_modules":"all-linear"}}`
	for _, c := range []struct{ config, training, pointer string }{
		{`{"model_type":"qwen2_5_vl","vision_config":{"window_size":7}}`, `{"micro_batch":1}`,
			"/model/hf_config/vision_config/window_size"},
		{`{"model_type":"llava","vision_config":{"patch_size":0}}`, training,
			"/model/hf_config/vision_config/patch_size"},
		{`{"model_type":"paligemma","vision_config":{"patch_size":0}}`, training,
			"/model/hf_config/vision_config/patch_size"},
		{`{"model_type":"gpt_oss","num_local_experts":0}`, adapted, "/model/hf_config/num_local_experts"},
		{`{"model_type":"granitemoe","num_local_experts":0}`, adapted, "/model/hf_config/num_local_experts"},
		{`{"model_type":"lfm2","intermediate_size":1}`, training, "/model/hf_config"},
		{`{"model_type":"gemma4","text_config":{"model_type":"gemma4_text","num_hidden_layers":20,
			"num_kv_shared_layers":20,"layer_types":["full_attention"]}}`, training,
			"/model/hf_config/text_config/num_kv_shared_layers"},
	} {
		var job Job
		if err := json.Unmarshal([]byte(`{"model":{"hf_config":`+c.config+`},"training":`+c.training+`}`), &job); err != nil {
			t.Fatal(err)
		}
		_, err := Estimate(Input{Job: job})
		if err == nil || !strings.Contains(err.Error(), c.pointer+": ") {
			t.Errorf("%s: %v; an error at %s is wanted", c.config, err, c.pointer)
		}
	}
}

// TestInBackwardAlone: an optimizer in backward is refused together with what no run has shown.
func TestInBackwardAlone(t *testing.T) {
	const own = `"optimizer":{"name":"adamw","in_backward":true}`
	for _, c := range []struct{ model, training string }{
		{`{"nanogpt":{}}`, `{"micro_batch":1,"compile":true,` + own + `}`},
		{`{"nanogpt":{}}`, `{"micro_batch":1,"gradient_accumulation":4,` + own + `}`},
		{`{"diffusion":{"preset":"stable-diffusion-v1-5/stable-diffusion-v1-5"}}`, `{"micro_batch":1,"gradient_accumulation":4,"objective":{"kind":"diffusion"},` +
			own + `}`},
	} {
		var job Job
		if err := json.Unmarshal([]byte(`{"model":`+c.model+`,"training":`+c.training+`}`), &job); err != nil {
			t.Fatal(err)
		}
		_, err := Estimate(Input{Job: job})
		if err == nil || !strings.Contains(err.Error(), "/training/optimizer/in_backward: ") {
			t.Errorf("%s: %v; an error at in_backward is wanted", c.training, err)
		}
	}
}

// TestFusedLinearWithQuantisedHead: Liger's loss multiplies by the head's matrix, which it cannot where that is packed.
func TestFusedLinearWithQuantisedHead(t *testing.T) {
	var job Job
	if err := json.Unmarshal([]byte(`{"model":{"hf_config":{"model_type":"gpt_oss","num_hidden_layers":2,
		"num_local_experts":4,"vocab_size":1000,"hidden_size":64,"tie_word_embeddings":false}},"training":{"micro_batch":1,
		"sequence_length":16,"precision":"fp32","framework":"litgpt","loss":{"kind":"fused-linear"},
		"lora":{"rank":8,"target_modules":["all-linear"],"base_precision":"nf4"}}}`), &job); err != nil {
		t.Fatal(err)
	}
	_, err := Estimate(Input{Job: job})
	if err == nil || !strings.Contains(err.Error(), "/training/loss: ") {
		t.Errorf("%v; an error at the loss is wanted", err)
	}
}
