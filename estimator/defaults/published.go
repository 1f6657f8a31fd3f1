package defaults

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"
)

// stored are the types in which checkpoints are published, by their names: torch_dtype of their config.json, as their
// publishers uploaded them by the end of 2025. Names that are not here are asked about.
var stored = []struct {
	kind string
	name *regexp.Regexp
}{
	{"bf16", regexp.MustCompile(`(?i)(^|/)(meta-)?llama-3(\.[123])?-\d+b|/qwen(1\.5|2|2\.5|3)-(\w+-)?[\d.]+b|/(mistral|mixtral|codestral|ministral)-|/zephyr-7b-|/gemma-|/phi-(3|3\.5|4)(-|$)|/smollm[23]-|/falcon-\d+b|/deepseek-(v2|r1-distill)|/granite-3|/starcoder2-(3|7)b`)},
	{"fp16", regexp.MustCompile(`(?i)/llama-2-\d+b(-chat)?-hf|huggyllama/|/vicuna-\d+b-v1\.5|codellama/|/pythia-`)},
	{"fp32", regexp.MustCompile(`(?i)(^|openai-community/)(distil)?gpt2(-(medium|large|xl))?$|(^|google-t5/)t5-(small|base|large|3b|11b)$|/flan-t5-|/bert-|roberta-`)},
}

// PublishedType is the type in which the checkpoint of that name is published, "" where nobody knows.
func PublishedType(name string) string {
	for _, s := range stored {
		if s.name.MatchString(name) {
			return s.kind
		}
	}
	return ""
}

// ConfigType is the type that a config.json names, "" where it names none or another; said is false where it cannot be
// read.
func ConfigType(raw json.RawMessage) (kind string, said bool) {
	var config struct {
		TorchDtype string `json:"torch_dtype"`
		Dtype      string `json:"dtype"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &config) != nil {
		return "", false
	}
	return configTypes[strings.TrimPrefix(cmp.Or(config.Dtype, config.TorchDtype), "torch.")], true
}

var configTypes = map[string]string{"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
