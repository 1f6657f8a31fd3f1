package estimator

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// storedConfig is quantization_config of a config.json: BitsAndBytesConfig, GPTQConfig
// (transformers/utils/quantization_config.py).
type storedConfig struct {
	Method        string `json:"quant_method"`
	LoadIn4Bit    bool   `json:"load_in_4bit"`
	LoadIn8Bit    bool   `json:"load_in_8bit"`
	LoadIn4BitOld bool   `json:"_load_in_4bit"` // both spellings are in published files
	LoadIn8BitOld bool   `json:"_load_in_8bit"`
	DoubleQuant   bool   `json:"bnb_4bit_use_double_quant"`
	Bits          int64  `json:"bits"`
}

// base is the base_precision that it stands for; empty where none is modelled.
func (c *storedConfig) base() (precision string, double bool) {
	switch {
	case c.LoadIn4Bit, c.LoadIn4BitOld:
		return "nf4", c.DoubleQuant
	case c.LoadIn8Bit, c.LoadIn8BitOld:
		return "int8", false
	case c.Method == "gptq" && (c.Bits == 4 || c.Bits == 8):
		return fmt.Sprintf("gptq-int%d", c.Bits), false
	}
	return "", false
}

// StoredBase is a job whose adapters are trained on a config.json of quantised weights, with base_precision and
// double_quantization as that file has them. A base_precision that the job gives wins. Other jobs are returned as they
// are.
func StoredBase(job Job) Job {
	l := job.Training.LoRA
	if l == nil || l.BasePrecision != "" || !bytes.Contains(job.Model.HFConfig, []byte(`"quantization_config"`)) {
		return job
	}
	var file struct {
		Stored storedConfig `json:"quantization_config"`
	}
	if json.Unmarshal(job.Model.HFConfig, &file) != nil {
		return job // what is wrong with it is said where it is read
	}
	precision, double := file.Stored.base()
	if precision == "" {
		return job
	}
	with := *l
	with.BasePrecision, with.DoubleQuantization = precision, l.DoubleQuantization || double
	job.Training.LoRA = &with
	return job
}

// refuseQuantised refuses to train quantised weights themselves, which take no gradients, and adapters on weights that
// are stored in a way that nobody has modelled.
func (r *work) refuseQuantised(job *Job, errs *invalid.List) {
	const pointer = "/model/hf_config/quantization_config"
	method := r.arch.Quantised
	switch l := job.Training.LoRA; {
	case method == "":
	case l == nil:
		errs.Add(pointer, "unsupported", "the weights are quantised (%.40s) and take no gradients: train adapters on "+
			"them with training.lora "+
			"(--qlora), or leave quantization_config out to train them unquantised", method)
	case l.BasePrecision == "":
		errs.Add(pointer, "unsupported", "a base quantised by %.40s is not modelled; say in "+
			"training.lora.base_precision what it comes nearest to: "+
			"nf4, int8, gptq-int4, gptq-int8, bf16, fp16 or fp32", method)
	}
}
