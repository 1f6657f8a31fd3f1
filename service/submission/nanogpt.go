package submission

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/shell"
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

// nanoGPTKeys are the settings of train.py in all of its releases.
const nanoGPTKeys = " out_dir eval_interval log_interval eval_iters eval_only always_save_checkpoint init_from " +
	"wandb_log wandb_project wandb_run_name dataset gradient_accumulation_steps batch_size block_size " +
	"n_layer n_head n_embd dropout bias learning_rate max_iters weight_decay beta1 beta2 grad_clip decay_lr " +
	"warmup_iters lr_decay_iters min_lr backend device dtype compile "

// nanoGPT reads "train.py [config.py …] [--key=value …]" as nanoGPT's configurator does: a bare
// argument is a file of assignments, a later argument wins, and a key must be one of train.py's.
func (p *program) nanoGPT() (map[string]any, string, error) {
	if path.Base(p.name) != "train.py" {
		return nil, "", ErrNoJob
	}
	n := nanoGPT{program: p, values: nanoGPTDefaults(), from: p.name, before: len(p.doubts)}
	own, err := p.read(p.name)
	if err != nil {
		return nil, "", err
	}
	n.recognised = strings.Contains(string(own), "configurator.py") && strings.Contains(string(own), "n_embd")
	if own != nil && !n.recognised {
		return nil, "", ErrNoJob // somebody else's train.py
	}
	if n.recognised {
		n.values.readPython(own, "config_keys")
		// train.py asks the card: dtype = 'bfloat16' if torch.cuda.is_bf16_supported() else 'float16'.
		// Both take two bytes.
		if _, asked := n.values["dtype"].(unknownValue); asked {
			n.values["dtype"] = "bfloat16"
		}
		for _, key := range slices.Sorted(maps.Keys(n.values)) {
			if _, other := n.values[key].(unknownValue); !other && !listed(nanoGPTKeys, key) {
				p.doubtKey(p.name, lineOf(own, key), key)
			}
		}
	}
	for _, arg := range p.args {
		if err := n.argument(arg); err != nil {
			p.doubts = p.doubts[:n.before]
			return nil, "", err
		}
	}
	if !n.recognised {
		p.doubts = p.doubts[:n.before]
		return nil, "", ErrNoJob
	}
	job, err := n.job()
	n.compare(own)
	return job, "nanoGPT's configuration in " + n.from, err
}

// nanoGPT is a configuration on its way to a job.
type nanoGPT struct {
	program    *program
	values     values
	recognised bool
	from       string
	before     int // doubts that were there before
}

// argument follows one word behind train.py.
func (n *nanoGPT) argument(arg shell.Word) error {
	p, sure := n.program, arg.Certainty == shell.Sure
	if !strings.HasPrefix(arg.Text, "--") {
		switch {
		case !sure && (arg.Many || arg.Text == "") && !strings.HasSuffix(arg.Text, ".py"):
			p.doubtValue(arg, "an argument of "+p.name)
			return nil
		case !strings.HasSuffix(arg.Text, ".py"):
			return n.strange(arg)
		case !sure:
			return unclear("%s:%d: the configuration that %s is started with depends on a variable: "+
				"%s", p.file(arg.At), arg.At.Line, clip(p.name), arg.Reason)
		}
		text, err := p.read(arg.Text)
		if err != nil {
			return err
		}
		if text == nil {
			return unclear("%s names %s, which is not there", clip(p.name), clip(arg.Text))
		}
		before := len(n.values)
		n.values.readPython(text, "")
		n.recognised = n.recognised || len(n.values) > before || strings.Contains(string(text), "batch_size")
		n.from = arg.Text
		n.file(arg.Text, text)
		return nil
	}
	key, value, given := strings.Cut(arg.Text[2:], "=")
	if _, ours := n.values[key]; !given || !ours && !n.recognised {
		if sure {
			return n.strange(arg)
		}
		p.doubtValue(arg, "an argument of "+p.name)
		return nil
	}
	n.recognised = true
	if !listed(nanoGPTKeys, key) {
		p.doubtKey(p.file(arg.At), arg.At.Line, "--"+key)
	}
	if !sure {
		n.values[key] = unknownValue{}
	} else if read, ok := (values{}).evaluate(value); ok {
		n.values[key] = read
	} else {
		n.values[key] = value
	}
	return nil
}

// strange is a word that nanoGPT's configurator does not take: the program is another one, or a fork.
func (n *nanoGPT) strange(arg shell.Word) error {
	if !n.recognised {
		return ErrNoJob
	}
	return unclear("%s:%d: %s is nothing that nanoGPT's configurator takes, and is not "+
		"understood", n.program.file(arg.At), arg.At.Line, clip(arg.Text))
}

// settingLine is a line of a configuration that only sets a name.
var settingLine = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)[ \t]*(?::[ \t]*[A-Za-z_.]+[ \t]*)?=[^=]`)

// file notes what in a file of assignments is more than that: the configurator runs it as a program.
func (n *nanoGPT) file(name string, text []byte) {
	line := 0
	for raw := range splitLines(text) {
		line++
		code := strings.TrimRight(withoutComment(raw), " \t")
		m := settingLine.FindStringSubmatch(code)
		switch {
		case strings.TrimSpace(code) == "", strings.HasPrefix(code, "import time"), strings.HasPrefix(code, "print("),
			strings.HasPrefix(code, `"""`):
		case m != nil && listed(nanoGPTKeys, m[1]):
		case m != nil:
			n.program.doubtKey(name, line, m[1])
		default:
			n.program.doubt(Doubt{File: name, Line: line, Word: strings.TrimSpace(raw), Why: "is not followed"})
		}
	}
}

// compare holds train.py and model.py against those of the releases: a fork may train anything under the same keys.
func (n *nanoGPT) compare(train []byte) {
	p := n.program
	model := path.Join(path.Dir(p.name), "model.py")
	text, err := p.read(model)
	switch {
	case train == nil:
		p.doubt(Doubt{File: p.file(p.nameAt), Line: p.nameAt.Line, Word: p.name,
			Why: "is not there to be compared with nanoGPT's"})
	case !p.source.programs.nanoGPTTrain[trainFingerprint(train)]:
		p.doubt(Doubt{File: p.name, Word: "train.py", Why: "is not one of nanoGPT's own"})
	case err != nil:
		p.doubt(Doubt{File: model, Why: err.Error()})
	case text == nil:
		p.doubt(Doubt{File: model, Word: "model.py", Why: "is not there to be compared with nanoGPT's"})
	case !p.source.programs.nanoGPTModel[modelFingerprint(text)]:
		p.doubt(Doubt{File: model, Word: "model.py", Why: "is not one of nanoGPT's own"})
	}
}

func (n *nanoGPT) job() (map[string]any, error) {
	p, v := n.program, n.values
	if v["device"] != "cuda" && v["device"] != "cuda:0" {
		return nil, ErrNoJob // it trains on something else than a GPU
	}
	if v["eval_only"] != false {
		return nil, ErrNoJob
	}
	need := map[string]int64{}
	for _, key := range []string{"n_layer", "n_head", "n_embd", "block_size", "batch_size",
		"gradient_accumulation_steps"} {
		number, ok := v[key].(int64)
		if !ok {
			return nil, unclear("nanoGPT's %s is not a whole number that can be read from the configuration", key)
		}
		need[key] = number
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
	vocabulary, open, err := p.nanoGPTVocabulary(v["dataset"])
	if err != nil {
		return nil, err
	}
	if init == "resume" {
		return nil, unclear("init_from is resume: the model is that of a checkpoint, which is not read")
	}
	if strings.HasPrefix(init, "gpt2") {
		size, ok := nanoGPTSizes[init]
		if !ok {
			return nil, unclear("init_from is %q, which is no GPT-2 that is known", clip(init))
		}
		need["n_layer"], need["n_head"], need["n_embd"] = size[0], size[1], size[2]
		bias, vocabulary, open = true, 50257, false
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
	document := func(vocabulary int64) map[string]any {
		return map[string]any{
			"model": map[string]any{"nanogpt": map[string]any{
				"n_layer": need["n_layer"], "n_head": need["n_head"], "n_embd": need["n_embd"],
				"block_size": need["block_size"], "vocab_size": vocabulary, "bias": bias, "dropout": dropout,
			}},
			"training": map[string]any{
				"micro_batch": need["batch_size"], "sequence_length": need["block_size"],
				"gradient_accumulation": accumulation,
				"precision":             precision,
				"optimizer":             map[string]any{"name": "adamw", "implementation": "fused"},
				"compile":               compile,
			},
		}
	}
	if open {
		p.others = append(p.others,
			reading{document(1), fmt.Sprintf("the vocabulary of data set %v may be small", v["dataset"])})
	}
	return document(vocabulary), nil
}

// nanoGPTVocabulary is 50,304 unless the data set brings a meta.pkl, of which only that of
// shakespeare_char is known: a pickle is a program, and is not read. open says that a data set that nobody knows may
// have got one by the time that the job runs.
func (p *program) nanoGPTVocabulary(dataset any) (vocabulary int64, open bool, err error) {
	name, ok := dataset.(string)
	if !ok {
		return 0, false, unclear("nanoGPT's dataset cannot be read from the configuration")
	}
	if name == "shakespeare_char" {
		return 65, false, nil
	}
	meta, err := p.read(path.Join(path.Dir(p.name), "data", name, "meta.pkl"))
	if err != nil || meta != nil {
		return 0, false, unclear("the vocabulary of data set %s is in its meta.pkl, which is not read", clip(name))
	}
	return 50304, name != "openwebtext" && name != "shakespeare", nil
}
