package submission

import (
	"path"
	"strings"
)

// nanoGPTDefaults are the values in train.py of karpathy/nanoGPT (3adf61e) that decide
// memory. A train.py that can be read is asked itself.
func nanoGPTDefaults() values {
	return values{
		"n_layer": int64(12), "n_head": int64(12), "n_embd": int64(768), "dropout": 0.0, "bias": false,
		"block_size": int64(1024), "batch_size": int64(12), "gradient_accumulation_steps": int64(5 * 8),
		"dtype": "bfloat16", "compile": true, "init_from": "scratch", "dataset": "openwebtext", "device": "cuda",
		"eval_only": false,
	}
}

// nanoGPTSizes are the GPT-2 models that init_from names: layers, heads, width.
var nanoGPTSizes = map[string][3]int64{
	"gpt2": {12, 12, 768}, "gpt2-medium": {24, 16, 1024}, "gpt2-large": {36, 20, 1280}, "gpt2-xl": {48, 25, 1600},
}

// nanoGPT reads "train.py [config.py …] [--key=value …]" as nanoGPT's configurator does: a bare
// argument is a file of assignments, a later argument wins, and a key must be one of train.py's.
func (p program) nanoGPT() (map[string]any, string, error) {
	if path.Base(p.name) != "train.py" {
		return nil, "", ErrNoJob
	}
	v := nanoGPTDefaults()
	from := p.name
	own, err := p.read(p.name)
	if err != nil {
		return nil, "", err
	}
	recognised := strings.Contains(string(own), "configurator.py") && strings.Contains(string(own), "n_embd")
	if own != nil && !recognised {
		return nil, "", ErrNoJob // somebody else's train.py
	}
	if recognised {
		v.readPython(own, "config_keys")
		// train.py asks the card: dtype = 'bfloat16' if torch.cuda.is_bf16_supported() else 'float16'.
		// Both take two bytes.
		if _, asked := v["dtype"].(unknownValue); asked {
			v["dtype"] = "bfloat16"
		}
	}
	for _, arg := range p.args {
		if !strings.HasPrefix(arg.text, "--") {
			if !strings.HasSuffix(arg.text, ".py") {
				return nil, "", ErrNoJob
			}
			if !arg.known {
				return nil, "", unclear("the configuration that %s is started with depends on a variable", clip(p.name))
			}
			text, err := p.read(arg.text)
			if err != nil {
				return nil, "", err
			}
			if text == nil {
				return nil, "", unclear("%s names %s, which is not there", clip(p.name), clip(arg.text))
			}
			before := len(v)
			v.readPython(text, "")
			recognised = recognised || len(v) > before || strings.Contains(string(text), "batch_size")
			from = arg.text
			continue
		}
		key, value, given := strings.Cut(arg.text[2:], "=")
		if _, ours := v[key]; !given || !ours && !recognised {
			return nil, "", ErrNoJob
		}
		recognised = true
		if !arg.known {
			v[key] = unknownValue{}
		} else if read, ok := (values{}).evaluate(value); ok {
			v[key] = read
		} else {
			v[key] = value
		}
	}
	if !recognised {
		return nil, "", ErrNoJob
	}
	job, err := p.nanoGPTJob(v)
	return job, "nanoGPT's configuration in " + from, err
}

func (p program) nanoGPTJob(v values) (map[string]any, error) {
	if v["device"] != "cuda" && v["device"] != "cuda:0" {
		return nil, ErrNoJob // it trains on something else than a GPU
	}
	if v["eval_only"] != false {
		return nil, ErrNoJob
	}
	need := map[string]int64{}
	for _, key := range []string{"n_layer", "n_head", "n_embd", "block_size", "batch_size", "gradient_accumulation_steps"} {
		n, ok := v[key].(int64)
		if !ok {
			return nil, unclear("nanoGPT's %s is not a whole number that can be read from the configuration", key)
		}
		need[key] = n
	}
	init, known := v["init_from"].(string)
	if !known {
		return nil, unclear("nanoGPT's init_from cannot be read from the configuration")
	}
	dropout, ok := v["dropout"].(float64)
	if whole, isInt := v["dropout"].(int64); isInt {
		dropout, ok = float64(whole), true
	}
	bias, okBias := v["bias"].(bool)
	compile, okCompile := v["compile"].(bool)
	if !ok || !okBias || !okCompile {
		return nil, unclear("nanoGPT's dropout, bias and compile cannot all be read from the configuration")
	}
	vocabulary, err := p.nanoGPTVocabulary(v["dataset"])
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(init, "gpt2") {
		size, ok := nanoGPTSizes[init]
		if !ok {
			return nil, unclear("init_from is %q, which is no GPT-2 that is known", clip(init))
		}
		need["n_layer"], need["n_head"], need["n_embd"] = size[0], size[1], size[2]
		bias, vocabulary = true, 50257
	}
	precision, ok := map[any]string{"bfloat16": "amp-bf16", "float16": "amp-fp16", "float32": "tf32"}[v["dtype"]]
	if !ok {
		return nil, unclear("nanoGPT's dtype is not one of bfloat16, float16 and float32")
	}
	accumulation := need["gradient_accumulation_steps"]
	if n := int64(p.processes); n > 1 {
		// train.py divides it by the number of processes, and stops where that does not go.
		accumulation = max(1, accumulation/n)
	}
	return map[string]any{
		"model": map[string]any{"nanogpt": map[string]any{
			"n_layer": need["n_layer"], "n_head": need["n_head"], "n_embd": need["n_embd"],
			"block_size": need["block_size"], "vocab_size": vocabulary, "bias": bias, "dropout": dropout,
		}},
		"training": map[string]any{
			"micro_batch": need["batch_size"], "sequence_length": need["block_size"], "gradient_accumulation": accumulation,
			"precision": precision, "optimizer": map[string]any{"name": "adamw", "implementation": "fused"}, "compile": compile,
		},
	}, nil
}

// nanoGPTVocabulary is 50,304 unless the data set brings a meta.pkl, of which only that of
// shakespeare_char is known: a pickle is a program, and is not read.
func (p program) nanoGPTVocabulary(dataset any) (int64, error) {
	name, ok := dataset.(string)
	if !ok {
		return 0, unclear("nanoGPT's dataset cannot be read from the configuration")
	}
	if name == "shakespeare_char" {
		return 65, nil
	}
	meta, err := p.read(path.Join(path.Dir(p.name), "data", name, "meta.pkl"))
	if err != nil || meta != nil {
		return 0, unclear("the vocabulary of data set %s is in its meta.pkl, which is not read", clip(name))
	}
	return 50304, nil
}
