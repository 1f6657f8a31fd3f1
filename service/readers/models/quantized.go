package models

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Quantized is how the weights of a checkpoint are stored that somebody quantized before.
type Quantized struct {
	// Method is the name that transformers gives it, as in "gptq".
	Method string
	// Base is the base_precision that it stands for; "" where none is modelled, and Near is then the nearest.
	Base, Near string
	// Double says that the scales are quantized too.
	Double bool
	// From says who says so.
	From string
}

// untrained are the methods whose quantizer says of itself that it trains nothing, in transformers 4.57.6 and 5.23.0
// alike (quantizers/quantizer_*.py is_trainable): the Trainer stops (trainer.py: "but that quantization method do not
// support training"). mxfp4 is brought back to bf16 where its kernels are not there.
var untrained = setting.SetOf("auto-round", "fbgemm_fp8", "higgs", "nvfp4", "quark", "spqr", "vptq")

// Trains reports whether adapters can be trained on weights that are stored so.
func (q Quantized) Trains() bool { return !untrained[q.Method] }

// StoredQuantized is how the checkpoint is quantized, as its config.json says, or its name where there is none at hand.
func StoredQuantized(d *draft.Draft) (Quantized, bool) {
	if text, given := d.Fields["/model/hf_config"].Value.(json.RawMessage); given {
		var file struct {
			Stored *storedConfig `json:"quantization_config"`
			Other  *storedConfig `json:"compression_config"` // as compressed-tensors called it first
		}
		if json.Unmarshal(text, &file) != nil {
			return Quantized{}, false
		}
		c := cmp.Or(file.Stored, file.Other)
		if c == nil {
			return Quantized{}, false
		}
		return c.quantized("quantization_config of its config.json says"), true
	}
	return quantizedName(d.Text("/model/preset"))
}

// storedConfig is quantization_config as transformers writes it (utils/quantization_config.py).
type storedConfig struct {
	Method        string `json:"quant_method"`
	LoadIn4Bit    bool   `json:"load_in_4bit"`
	LoadIn8Bit    bool   `json:"load_in_8bit"`
	LoadIn4BitOld bool   `json:"_load_in_4bit"` // both spellings are in published files
	LoadIn8BitOld bool   `json:"_load_in_8bit"`
	DoubleQuant   bool   `json:"bnb_4bit_use_double_quant"`
	Bits          int64  `json:"bits"`
	// Groups are compressed-tensors' layers, by what they are stored in.
	Groups map[string]struct {
		Weights struct {
			Bits int64 `json:"num_bits"`
		} `json:"weights"`
	} `json:"config_groups"`
}

func (c *storedConfig) quantized(from string) Quantized {
	q := Quantized{Method: cmp.Or(c.Method, "a method without a name"), From: from}
	for _, g := range c.Groups {
		c.Bits = max(c.Bits, g.Weights.Bits)
	}
	switch {
	case c.LoadIn4Bit, c.LoadIn4BitOld:
		q.Method, q.Base, q.Double = "bitsandbytes", "nf4", c.DoubleQuant
	case c.LoadIn8Bit, c.LoadIn8BitOld:
		q.Method, q.Base = "bitsandbytes", "int8"
	case c.Method == "gptq" && (c.Bits == 4 || c.Bits == 8):
		q.Base = fmt.Sprintf("gptq-int%d", c.Bits)
	case c.Method == "awq" && c.Bits != 8:
		q.Near = "gptq-int4"
	case strings.Contains(c.Method, "fp8"):
		q.Near = "gptq-int8"
	case c.Bits == 4:
		q.Near = "gptq-int4"
	case c.Bits == 8:
		q.Near = "gptq-int8"
	}
	return q
}

// quantizedNames are parts of the names under which quantized checkpoints are published. The first that fits counts.
var quantizedNames = []struct {
	part string
	Quantized
}{
	{"bnb-4bit", Quantized{Method: "bitsandbytes", Base: "nf4"}},
	{"bnb-8bit", Quantized{Method: "bitsandbytes", Base: "int8"}},
	{"awq", Quantized{Method: "awq", Near: "gptq-int4"}},
	{"gptq-int8", Quantized{Method: "gptq", Base: "gptq-int8"}},
	{"gptq-8bit", Quantized{Method: "gptq", Base: "gptq-int8"}},
	{"gptq", Quantized{Method: "gptq", Base: "gptq-int4"}},
	{"w4a16", Quantized{Method: "compressed-tensors", Near: "gptq-int4"}},
	{"w8a8", Quantized{Method: "compressed-tensors", Near: "gptq-int8"}},
	{"w8a16", Quantized{Method: "compressed-tensors", Near: "gptq-int8"}},
	{"gguf", Quantized{Method: "gguf", Near: "gptq-int4"}},
	{"nvfp4", Quantized{Method: "nvfp4", Near: "gptq-int4"}},
	{"fp8", Quantized{Method: "fp8", Near: "gptq-int8"}},
	{"aqlm", Quantized{Method: "aqlm"}},
	{"hqq", Quantized{Method: "hqq", Near: "gptq-int4"}},
	{"openai/gpt-oss-", Quantized{Method: "mxfp4"}},
	{"-mlx", Quantized{Method: "mlx", Near: "gptq-int4"}},
}

func quantizedName(name string) (Quantized, bool) {
	lower := strings.ToLower(name)
	for _, n := range quantizedNames {
		if strings.Contains(lower, n.part) || n.part == "gptq" && strings.HasSuffix(lower, "-int4") {
			q := n.Quantized
			q.From = "the name of " + name + " says"
			return q, true
		}
	}
	return Quantized{}, false
}

// QuantizedBase takes the base's type from a checkpoint that is stored quantized, and asks for it where that is
// stored in a way that is not modelled. What the checkpoint is stored in wins over what the job asks for
// (transformers quantizers/auto.py merge_quantization_configs). Of the methods in dequantized the tool brings the
// weights back as it loads them.
func QuantizedBase(d *draft.Draft, dequantized ...string) bool {
	const pointer = "/training/lora/base_precision"
	q, ok := StoredQuantized(d)
	if !ok || q.Method == "mxfp4" || slices.Contains(dequantized, q.Method) {
		return false
	}
	if q.Base != "" && d.Text(pointer) != q.Base {
		d.Derive(pointer, q.Base, "the checkpoint is stored so, as %s", q.From)
	}
	switch {
	case q.Double:
		d.Derive("/training/lora/double_quantization", true, "the checkpoint is stored so, as %s", q.From)
	case q.Base != "nf4" || d.Has("/model/hf_config"):
		d.Drop("/training/lora/double_quantization")
	}
	if q.Base != "" {
		return true
	}
	d.Drop(pointer)
	near := "bf16 where it is dequantized as it is loaded"
	if q.Near != "" {
		near = q.Near + " is nearest, " + near
	}
	d.Ask(pointer, fmt.Sprintf("In what does the GPU hold the base? It is stored by %s, which is not modelled (%s).",
		q.Method, near), q.From+" so")
	return true
}

// NameIsQuantized reports whether the name of a checkpoint says that it is stored quantized.
func NameIsQuantized(name string) bool {
	_, ok := quantizedName(name)
	return ok
}

// IsGPTQ reports whether a checkpoint is quantized by GPTQ, as its name says.
func IsGPTQ(name string) bool {
	q, ok := quantizedName(name)
	return ok && q.Method == "gptq"
}
