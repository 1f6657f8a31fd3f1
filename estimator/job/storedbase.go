package job

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	if with.BasePrecision = precision; double {
		with.DoubleQuantization = new(true)
	}
	job.Training.LoRA = &with
	return job
}
