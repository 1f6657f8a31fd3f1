package job

import (
	"fmt"
	"testing"
)

func TestStoredBase(t *testing.T) {
	for _, c := range []struct {
		stored, given string
		precision     string
		double        bool
	}{
		{`{"load_in_4bit": true}`, "", "nf4", false},
		{`{"_load_in_4bit": true, "bnb_4bit_use_double_quant": true}`, "", "nf4", true},
		{`{"load_in_8bit": true, "bnb_4bit_use_double_quant": true}`, "", "int8", false},
		{`{"quant_method": "gptq", "bits": 4}`, "", "gptq-int4", false},
		{`{"quant_method": "gptq", "bits": 8}`, "", "gptq-int8", false},
		{`{"quant_method": "gptq", "bits": 3}`, "", "", false},
		{`{"quant_method": "awq", "bits": 4}`, "", "", false},
		{`{"load_in_4bit": true}`, "bf16", "bf16", false},
		{`"bitsandbytes"`, "", "", false},
	} {
		given := &LoRA{Rank: 8, BasePrecision: c.given}
		job := Job{Model: Model{HFConfig: fmt.Appendf(nil, `{"model_type": "llama", "quantization_config": %s}`,
			c.stored)}, Training: Training{LoRA: given}}
		got := StoredBase(job).Training.LoRA
		if got.BasePrecision != c.precision || got.Doubles() != c.double {
			t.Errorf("%s with %q: %q, double %t; want %q, %t", c.stored, c.given, got.BasePrecision,
				got.Doubles(), c.precision, c.double)
		}
		if given.BasePrecision != c.given {
			t.Errorf("%s: the caller's job was changed", c.stored)
		}
	}
	if StoredBase(Job{Model: Model{HFConfig: []byte(`{"quantization_config": {"load_in_4bit": true}}`)}}).Training.LoRA != nil {
		t.Error("a job without adapters has some")
	}
}
