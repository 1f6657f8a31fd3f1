package submission

import (
	"regexp"
	"strings"
)

// What run_clm.py of transformers does with the model, in all releases from 4.6 to 5.0: anything else is a fork's. Each
// pattern finds something that a line does; a line in which one of them finds what is not listed is in doubt.
var (
	clmModel   = regexp.MustCompile(`\b(?:model|trainer\.model|self\.model)\.(\w+)`)
	clmSet     = regexp.MustCompile(`^\s*(?:model|config|trainer|(?:training|model|data)_args\.\w+)\s*=\s*([\w.]+)`)
	clmClass   = regexp.MustCompile(`^\s*class\s+(\w+)`)
	clmOption  = regexp.MustCompile(`^    (\w+)\s*:\s*[^=]+=\s*field\(`)
	clmImport  = regexp.MustCompile(`^\s*(?:from|import)\s+(\w+)`)
	clmWords   = regexp.MustCompile(`(?i)lora|peft|bitsandbytes|bnb|quantiz|gptq|awq|freez|requires_grad|fsdp|deepspeed|shard|offload|checkpointing|\.half\(|\.to\(|\.cpu\(|device_map|default_dtype|monkey|replace_|setattr|exec\(|eval\(`)
	clmStrings = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)
)

const (
	clmModelCalls = " resize_token_embeddings get_input_embeddings parameters config generation_config "
	clmValues     = " AutoModelForCausalLM.from_pretrained AutoModelForCausalLM.from_config " +
		"AutoConfig.from_pretrained CONFIG_MAPPING Trainer "
	clmClasses = " ModelArguments DataTrainingArguments "
	clmImports = " logging math os sys dataclasses itertools typing datasets evaluate torch transformers " +
		"warnings json random collections "
	clmOptions = " model_name_or_path model_type config_overrides config_name tokenizer_name cache_dir " +
		"use_fast_tokenizer model_revision token use_auth_token trust_remote_code torch_dtype dtype " +
		"low_cpu_mem_usage " +
		"dataset_name dataset_config_name train_file validation_file max_train_samples max_eval_samples streaming " +
		"block_size overwrite_cache validation_split_percentage preprocessing_num_workers keep_linebreaks " +
		"attn_implementation "
)

// readRunCLM compares a run_clm.py that lies there with what the program of the releases does. One that is not there is
// known by its name and its arguments.
func (p *program) readRunCLM() {
	text, err := p.read(p.name)
	if err != nil {
		p.doubt(Doubt{File: p.file(p.nameAt), Line: p.nameAt.Line, Word: p.name,
			Why: "cannot be compared with a release: " + err.Error()})
		return
	}
	if text == nil {
		return
	}
	line, inDoc, parses := 0, false, false
	for raw := range splitLines(text) {
		line++
		if strings.Count(raw, `"""`)%2 == 1 {
			inDoc = !inDoc
			continue
		}
		if inDoc || strings.HasPrefix(strings.TrimSpace(raw), "#") {
			continue
		}
		code := clmStrings.ReplaceAllString(raw, `""`)
		parses = parses || strings.Contains(code, "HfArgumentParser(")
		if !clmLine(code) {
			p.doubt(Doubt{File: p.name, Line: line, Word: strings.TrimSpace(raw),
				Why: "is not in the program of a release that is known"})
			return
		}
	}
	if !parses {
		p.doubt(Doubt{File: p.name, Word: "run_clm.py", Why: "is not that of transformers"})
	}
}

// clmLine says whether a line does only what such a line does in the releases.
func clmLine(code string) bool {
	for _, m := range clmModel.FindAllStringSubmatch(code, -1) {
		if !listed(clmModelCalls, m[1]) {
			return false
		}
	}
	for _, check := range []struct {
		pattern *regexp.Regexp
		allowed string
	}{{clmSet, clmValues}, {clmClass, clmClasses}, {clmOption, clmOptions}, {clmImport, clmImports}} {
		if m := check.pattern.FindStringSubmatch(code); m != nil && !listed(check.allowed, m[1]) {
			return false
		}
	}
	return !clmWords.MatchString(code)
}
