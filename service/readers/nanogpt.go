package readers

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// nanoGPTTool reads nanoGPT's train.py with its configurator, and forks that keep both.
var nanoGPTTool = tool{
	name:   "nanogpt",
	starts: (*reading).nanoGPTStarts,
	marks: map[string]int{"n_embd": 2, "block_size": 2, "n_layer": 1, "gradient_accumulation_steps": 1,
		"eval_interval": 1, "lr_decay_iters": 1, "init_from": 2, "always_save_checkpoint": 2},
	read:  (*reading).readNanoGPT,
	words: nanoGPTWords,
}

// nanoGPTDefaults are train.py's at 3adf61e1, as far as they change memory.
var nanoGPTDefaults = []struct {
	key   string
	value any
	line  string
}{
	{"batch_size", int64(12), "49"}, {"block_size", int64(1024), "50"},
	{"gradient_accumulation_steps", int64(40), "48"}, {"n_layer", int64(12), "52"}, {"n_head", int64(12), "53"},
	{"n_embd", int64(768), "54"}, {"dropout", 0.0, "55"}, {"bias", false, "56"}, {"dtype", "bfloat16", "73"},
	{"compile", true, "74"}, {"init_from", "scratch", "41"}, {"dataset", "openwebtext", "47"},
	{"device", "cuda", "72"}, {"eval_only", false, "39"},
}

// nanoGPTSizes are the GPT-2 models that init_from names (model.py from_pretrained): layers, heads, width.
var nanoGPTSizes = map[string][3]int64{"gpt2": {12, 12, 768}, "gpt2-medium": {24, 16, 1024},
	"gpt2-large": {36, 20, 1280}, "gpt2-xl": {48, 25, 1600}}

// nanoGPTKeys are all that train.py has (3adf61e1).
var nanoGPTKeys = set(strings.Fields(`out_dir eval_interval log_interval eval_iters eval_only always_save_checkpoint init_from wandb_log wandb_project wandb_run_name dataset
	gradient_accumulation_steps batch_size block_size n_layer n_head n_embd dropout bias learning_rate max_iters weight_decay beta1 beta2 grad_clip decay_lr warmup_iters lr_decay_iters min_lr
	backend device dtype compile`)...)

// nanoGPTStill are those of them that move no memory. Not among them is grad_clip, of which 0 clips nothing.
var nanoGPTStill = strings.Fields(`out_dir eval_interval log_interval eval_iters always_save_checkpoint wandb_log wandb_project
	wandb_run_name learning_rate max_iters weight_decay beta1 beta2 decay_lr warmup_iters lr_decay_iters min_lr backend`)

// forkWords are settings of forks that change the model or its vocabulary.
var forkWords = regexp.MustCompile(`(?i)model_type|vocab|tokenizer|n_kv|kv_head|rope|rotary|moe|expert|lora|attn|attention|mlp|norm|architecture|recur|n_latent|mamba|ssm`)

func (r *reading) nanoGPTStarts() bool {
	if r.module || path.Ext(r.program.Text) != ".py" {
		return false
	}
	code := r.opened(r.program.Text, "config_keys")
	ours := code != nil && strings.Contains(string(code.Source), "configurator.py") &&
		strings.Contains(string(code.Source), "n_embd")
	if code != nil && !ours {
		return false
	}
	r.code = code
	r.s = setting.New()
	for _, d := range nanoGPTDefaults {
		r.s.Set(d.key, setting.Value{Any: d.value, Origin: setting.Origin{Kind: setting.Default, Key: d.key,
			Ref: "nanoGPT@3adf61e1 train.py:" + d.line}})
	}
	if ours {
		for _, key := range code.Values.Keys() {
			v, _ := code.Values.Peek(key)
			v.Origin.Kind, v.Origin.Ref = setting.Default, v.Origin.At.Where()
			r.s.Set(key, v)
		}
	}
	return r.nanoGPTArguments(ours)
}

// nanoGPTArguments reads the words as configurator.py does: a bare word is a file, later words win, and only keys that
// train.py has are taken.
func (r *reading) nanoGPTArguments(ours bool) bool {
	for _, w := range r.args {
		if w.open() {
			r.openWord(w)
			continue
		}
		text := w.Text
		if !strings.HasPrefix(text, "--") {
			if path.Ext(text) != ".py" {
				return false
			}
			full, body, err := r.open(text)
			if body == nil {
				v := w.argument("")
				r.problems = append(r.problems, func(*draft) { r.notThere(v, err) })
				return ours
			}
			if err != nil {
				r.asItLies(full, err)
			}
			s, err := decodeFile(full, r.files.shown(full), body)
			if err != nil {
				return false
			}
			r.assigned = append(r.assigned, full)
			ours = ours || s.Any("batch_size", "n_layer", "block_size") &&
				s.Any("max_iters", "eval_interval", "gradient_accumulation_steps", "init_from")
			r.s.Over(s)
			r.file = full
			continue
		}
		key, _, given := strings.Cut(text[2:], "=")
		if !given {
			return false
		}
		ours = ours || r.base() == "train.py" && nanoGPTKeys[key] && key != "learning_rate" && key != "weight_decay"
		v := w.cut(len(key) + 3).argument(key)
		v.Any = setting.Scalar(strings.Trim(v.Text, `"'`))
		r.s.Set(key, v)
	}
	return ours
}

func (r *reading) readNanoGPT() {
	r.compare = r.isNanoGPT
	s := r.s
	if r.code == nil && !s.Has("device") { // a configuration alone: train.py's own values below it
		below := setting.New()
		for _, d := range nanoGPTDefaults {
			below.Set(d.key, setting.Value{Any: d.value, Origin: setting.Origin{Kind: setting.Default, Key: d.key,
				Ref: "nanoGPT@3adf61e1 train.py:" + d.line}})
		}
		below.Over(s)
		r.s, s = below, below
	}
	if device, _ := s.Get("device"); device.Unknown == "" && !strings.HasPrefix(device.String(), "cuda") &&
		device.Any != "cuda" {
		r.d.refuse("no-gpu", device.Origin.At, "device %s: no GPU is used", device.String())
	}
	if v, ok := s.Get("eval_only"); ok && v.On() {
		r.d.refuse("no-training", v.Origin.At, "eval_only: no training step")
	}
	r.nanoGPTFork()
	r.nanoGPTModel()
	r.number("/training/micro_batch", askMicroBatch, "batch_size")
	r.number("/training/sequence_length", askLength, "block_size")
	r.nanoGPTAccumulation()
	v, _ := s.Get("dtype")
	switch dtype(v.String()) {
	case "fp16":
		r.d.put("/training/precision", "amp-fp16", v)
	case "fp32":
		r.d.put("/training/precision", "tf32", v)
	default: // train.py asks the card, and both answers take two bytes
		r.d.put("/training/precision", "amp-bf16", v)
		if v.Unknown != "" {
			r.d.settle("/training/precision", "dtype is bfloat16, or float16, which takes as much: it %s", v.Unknown)
		}
	}
	r.d.fall("/training/optimizer", optimizer{"adamw", "fused"}, "configure_optimizers",
		"nanoGPT@3adf61e1 model.py:283")
	if v, ok := s.Get("compile"); ok && v.Unknown == "" {
		on, _ := v.Bool()
		r.d.put("/training/compile", on, v)
	}
	s.Read("use_flash", "use_customized_cuda_kernel")
	s.Still(nanoGPTStill...)
	for key := range nanoGPTKeys {
		s.Read(key)
	}
}

// nanoGPTFork refuses what is no GPT-2 any more: a fork's own settings about the model or its vocabulary.
func (r *reading) nanoGPTFork() {
	for _, key := range r.s.Keys() {
		v, _ := r.s.Peek(key)
		if nanoGPTKeys[key] || key == "model_args" || !forkWords.MatchString(key) || v.Off() {
			continue
		}
		switch {
		case key == "model_type" && strings.HasPrefix(v.String(), "gpt"):
		case v.Unknown != "" && v.Origin.Kind == setting.Default:
		default:
			what := "changes the model"
			if strings.Contains(key, "vocab") || strings.Contains(key, "tokenizer") {
				what = "makes the vocabulary, which is counted in the data at run time"
			}
			r.d.refuse("fork", v.Origin.At, "%s = %s is no setting of nanoGPT: this fork %s", key, clip(v.String()),
				what)
		}
	}
	if r.code == nil {
		return
	}
	if c, ok := r.code.Call("dict"); ok && c.Keywords.Has("n_embd") {
		known := set("n_layer", "n_head", "n_embd", "block_size", "bias", "vocab_size", "dropout")
		for _, key := range c.Keywords.Keys() {
			if !known[key] {
				v, _ := c.Keywords.Peek(key)
				r.d.refuse("fork", v.Origin.At, "the model takes %s, which nanoGPT's does not", key)
			}
		}
	}
}

func (r *reading) nanoGPTModel() {
	init, _ := r.s.Get("init_from")
	const model = "/model/nanogpt/"
	name := init.String()
	switch size, ok := nanoGPTSizes[name]; {
	case init.Unknown != "" || name == "resume":
		r.d.ask("/model", "Which sizes has the model?", cmp.Or(init.Unknown, "init_from resume: they are "+
			"in the checkpoint"))
	case ok:
		for i, key := range []string{"n_layer", "n_head", "n_embd"} {
			r.d.put(model+key, size[i], init)
		}
		r.d.put(model+"vocab_size", int64(50257), init)
		r.d.put(model+"bias", true, init)
		r.d.derive(model+"block_size", int64(1024), "init_from %s", name)
		if v, ok := r.s.Get("block_size"); ok {
			if n, isInt := v.Int(); isInt && n < 1024 {
				r.d.put(model+"block_size", n, v)
			}
		}
	default:
		for _, key := range []string{"n_layer", "n_head", "n_embd", "block_size"} {
			r.number(model+key, "What is "+key+"?", key)
		}
		if v, ok := r.s.Get("bias"); ok && v.Unknown == "" {
			on, _ := v.Bool()
			r.d.put(model+"bias", on, v)
		}
		r.nanoGPTVocabulary()
	}
	if v, ok := r.s.Get("dropout"); ok {
		if f, isFloat := v.Float(); isFloat {
			r.d.put(model+"dropout", f, v)
		}
	}
}

// nanoGPTVocabulary: the vocabulary is that of the data set's meta.pkl, and 50,304 without one. A pickle is a program
// and is not read; of the data sets that nanoGPT brings only shakespeare_char has one.
func (r *reading) nanoGPTVocabulary() {
	const pointer = "/model/nanogpt/vocab_size"
	v, _ := r.s.Get("dataset")
	switch v.String() {
	case "shakespeare_char":
		r.d.derive(pointer, int64(65), "data/shakespeare_char/prepare.py prints it")
	case "openwebtext", "shakespeare":
		r.d.fall(pointer, int64(50304), "vocab_size", "nanoGPT@3adf61e1 train.py:154")
	default:
		if _, meta, err := r.open(path.Join(path.Dir(r.program.Text), "data", v.String(), "meta.pkl")); v.Unknown != "" ||
			meta != nil || err != nil && !errors.Is(err, fs.ErrNotExist) || r.program.Text == "" {
			r.d.ask(pointer, "How large is the vocabulary? 50304 if the data set has no meta.pkl.",
				"it is in the meta.pkl of data set "+clip(v.String()))
			return
		}
		r.d.fall(pointer, int64(50304), "vocab_size", "nanoGPT@3adf61e1 train.py:154")
		r.d.settle(pointer, "data set %s has no meta.pkl with a vocabulary of its own: none is there "+
			"(--set model.nanogpt.vocab_size=N)", clip(v.String()))
		r.d.floor(pointer, int64(1), "the vocabulary of data set "+clip(v.String())+" may be small")
	}
}

// nanoGPTAccumulation divides the steps by the processes, as train.py does; of early 2023 it multiplied by 8 on one
// GPU.
func (r *reading) nanoGPTAccumulation() {
	const pointer = "/training/gradient_accumulation"
	v, _ := r.s.Get("gradient_accumulation_steps")
	n, isInt := v.Int()
	w := r.gpus()
	r.d.sources[pointer] = v
	if !isInt || !w.known {
		r.numberOf(pointer, askAccumulation, v)
		return
	}
	source := ""
	if r.code != nil {
		source = string(r.code.Source)
	}
	divides := r.code == nil || strings.Contains(source, "gradient_accumulation_steps //= ddp_world_size") ||
		strings.Contains(source, "gradient_accumulation_steps % ")
	switch {
	case strings.Contains(source, "gradient_accumulation_steps *= 8") && w.n == 1:
		r.d.derive(pointer, n*8, "gradient_accumulation_steps %d × 8: this train.py multiplies on one GPU", n)
	case w.n > 1 && divides && n%w.n != 0:
		r.d.refuse("cannot-start", v.Origin.At, "train.py stops: gradient_accumulation_steps %d is not divisible by "+
			"the %d processes", n, w.n)
	case w.n > 1 && divides:
		r.d.derive(pointer, n/w.n, "gradient_accumulation_steps %d / %d processes", n, w.n)
	default:
		r.d.put(pointer, n, v)
	}
}
