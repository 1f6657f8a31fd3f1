package models

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
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

// storedIn is the type of the checkpoint of that name, "" where nobody knows.
func storedIn(name string) string {
	for _, s := range stored {
		if s.name.MatchString(name) {
			return s.kind
		}
	}
	return ""
}

// CheckpointType is the type that from_pretrained(dtype="auto") loads: that of the config.json where it is at hand,
// else that of the name; "" where nobody knows.
func CheckpointType(l *launch.Launch, d *draft.Draft) (kind, from string) {
	raw, given := d.Fields["/model/hf_config"].Value.(json.RawMessage)
	name := d.Text("/model/preset")
	for _, said := range l.Files.Source.Set {
		switch said.Path {
		case "model.hf_config":
			raw, given = json.RawMessage(said.Value), true
		case "model", "model.preset":
			name = strings.Trim(said.Value, `"`)
		}
	}
	if given {
		var config struct {
			TorchDtype string `json:"torch_dtype"`
			Dtype      string `json:"dtype"`
		}
		if json.Unmarshal(raw, &config) == nil {
			return draft.Dtype(cmp.Or(config.Dtype, config.TorchDtype)), "as its config.json says"
		}
	}
	return storedIn(name), "as " + name + " is published"
}

// FreshType is the type that random weights have: that of the configuration, and float32 where it says none
// (transformers 4.57.6 modeling_utils.py _from_config). The argument torch_dtype is not handed on to them.
func FreshType(d *draft.Draft) string {
	text, _ := d.Fields["/model/hf_config"].Value.(json.RawMessage)
	var c struct {
		Dtype      string `json:"dtype"`
		TorchDtype string `json:"torch_dtype"`
	}
	if len(text) == 0 || json.Unmarshal(text, &c) != nil {
		return ""
	}
	return draft.Dtype(strings.TrimPrefix(cmp.Or(c.Dtype, c.TorchDtype), "torch."))
}
