// Package nanogpt reads nanoGPT's configurator, and compares its programs with those of its releases.
package nanogpt

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads nanoGPT's train.py with its configurator, and forks that keep both.
var Tool = tool.Tool{
	Name: "nanogpt",
	Marks: map[string]int{"n_embd": 2, "block_size": 2, "n_layer": 1, "gradient_accumulation_steps": 1,
		"eval_interval": 1, "lr_decay_iters": 1, "init_from": 2, "always_save_checkpoint": 2},
	New:   func(j *tool.Job) tool.Reader { return &job{Job: j} },
	Words: words,
}

// job is one job on its way through this tool.
type job struct {
	*tool.Job
	// assigned are files of assignments that the program runs, by their full names.
	assigned []string
}

// defaults are train.py's at 3adf61e1, as far as they change memory.
var defaults = []struct {
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

// sizes are the GPT-2 models that init_from names (model.py from_pretrained): layers, heads, width.
var sizes = map[string][3]int64{"gpt2": {12, 12, 768}, "gpt2-medium": {24, 16, 1024},
	"gpt2-large": {36, 20, 1280}, "gpt2-xl": {48, 25, 1600}}

// keys are all that train.py has (3adf61e1).
var keys = setting.SetOf(strings.Fields(`out_dir eval_interval log_interval eval_iters eval_only always_save_checkpoint init_from wandb_log wandb_project wandb_run_name dataset
	gradient_accumulation_steps batch_size block_size n_layer n_head n_embd dropout bias learning_rate max_iters weight_decay beta1 beta2 grad_clip decay_lr warmup_iters lr_decay_iters min_lr
	backend device dtype compile`)...)

// still are those of them that move no memory. Not among them is grad_clip, of which 0 clips nothing.
var still = strings.Fields(`out_dir eval_interval log_interval eval_iters always_save_checkpoint wandb_log wandb_project
	wandb_run_name learning_rate max_iters weight_decay beta1 beta2 decay_lr warmup_iters lr_decay_iters min_lr backend`)

// forkWords are settings of forks that change the model or its vocabulary.
var forkWords = regexp.MustCompile(`(?i)model_type|vocab|tokenizer|n_kv|kv_head|rope|rotary|moe|expert|lora|attn|attention|mlp|norm|architecture|recur|n_latent|mamba|ssm`)

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	if r.Module || path.Ext(r.Program.Text) != ".py" {
		return false
	}
	code := r.Opened(r.Program.Text, "config_keys")
	ours := code != nil && bytes.Contains(code.Source, []byte("configurator.py")) &&
		bytes.Contains(code.Source, []byte("n_embd"))
	if code != nil && !ours {
		return false
	}
	r.Code = code
	r.In = setting.New()
	for _, d := range defaults {
		r.In.Set(d.key, setting.Value{Any: d.value, Origin: setting.Origin{Kind: setting.Default, Key: d.key,
			Ref: "nanoGPT@3adf61e1 train.py:" + d.line}})
	}
	if ours {
		for _, key := range code.Values.Keys() {
			v, _ := code.Values.Peek(key)
			v.Origin.Kind, v.Origin.Ref = setting.Default, v.Origin.At.Where()
			r.In.Set(key, v)
		}
	}
	return r.arguments(ours)
}

// arguments reads the words as configurator.py does: a bare word is a file, later words win, and only keys that
// train.py has are taken.
func (r *job) arguments(ours bool) bool {
	for _, w := range r.Args {
		if w.Open() {
			r.OpenWord(w)
			continue
		}
		text := w.Text
		if !strings.HasPrefix(text, "--") {
			if path.Ext(text) != ".py" {
				return false
			}
			full, body, err := r.Open(text)
			if body == nil {
				v := w.Argument("")
				r.Problems = append(r.Problems, func(*draft.Draft) { r.NotThere(v, err) })
				return ours
			}
			if err != nil {
				r.AsItLies(full, err)
			}
			s, err := r.Files.Settings(full, body)
			if err != nil {
				return false
			}
			r.assigned = append(r.assigned, full)
			ours = ours || s.Any("batch_size", "n_layer", "block_size") &&
				s.Any("max_iters", "eval_interval", "gradient_accumulation_steps", "init_from")
			r.In.Over(s)
			r.File = full
			continue
		}
		key, _, given := strings.Cut(text[2:], "=")
		if !given {
			return false
		}
		ours = ours || r.Base() == "train.py" && keys[key] && key != "learning_rate" && key != "weight_decay"
		v := w.Cut(len(key) + 3).Argument(key)
		v.Any = setting.Scalar(strings.Trim(v.Text, `"'`))
		r.In.Set(key, v)
	}
	return ours
}

// Read maps the settings to fields.
func (r *job) Read() {
	r.Compare = r.isNanoGPT
	s := r.In
	if r.Program.Text == "" && !r.isTrain() { // a configuration alone: train.py's own values below it
		r.Code = nil
		below := setting.New()
		for _, d := range defaults {
			below.Set(d.key, setting.Value{Any: d.value, Origin: setting.Origin{Kind: setting.Default, Key: d.key,
				Ref: "nanoGPT@3adf61e1 train.py:" + d.line}})
		}
		below.Over(s)
		r.In, s = below, below
	}
	if device, _ := s.Get("device"); device.Unknown == "" && !strings.HasPrefix(device.String(), "cuda") &&
		device.Any != "cuda" {
		r.Out.Refuse("no-gpu", device.Origin.At, "device %s: no GPU is used", device.String())
	}
	if v, ok := s.Get("eval_only"); ok && v.On() {
		r.Out.Refuse("no-training", v.Origin.At, "eval_only: no training step")
	}
	r.unknownKeys()
	r.fork()
	r.model()
	r.Number("/training/micro_batch", tool.AskMicroBatch, "batch_size")
	r.Number("/training/sequence_length", tool.AskLength, "block_size")
	r.accumulation()
	v, _ := s.Get("dtype")
	switch draft.Dtype(v.String()) {
	case "fp16":
		r.Out.Put("/training/precision", "amp-fp16", v)
	case "fp32":
		r.Out.Put("/training/precision", "tf32", v)
	default: // train.py asks the card, and both answers take two bytes
		r.Out.Put("/training/precision", "amp-bf16", v)
		if v.Unknown != "" {
			r.Out.Settle("/training/precision", "dtype is bfloat16, or float16, which takes as much: it %s", v.Unknown)
		}
	}
	r.Out.Fall("/training/optimizer", draft.Optimizer{Name: "adamw", Implementation: "fused"}, "configure_optimizers",
		"nanoGPT@3adf61e1 model.py:283")
	if v, ok := s.Get("compile"); ok && v.Unknown == "" {
		on, _ := v.Bool()
		r.Out.Put("/training/compile", on, v)
	}
	s.Read("use_flash", "use_customized_cuda_kernel")
	s.Still(still...)
	for key := range keys {
		s.Read(key)
	}
}

// unknownKeys refuses words that the configurator does not take: it ends at them (configurator.py: "Unknown config
// key"), so that what runs with one is another program.
func (r *job) unknownKeys() {
	for _, key := range r.In.Keys() {
		v, _ := r.In.Peek(key)
		if v.Origin.Kind != setting.Argument || keys[key] || forkWords.MatchString(key) ||
			r.Code != nil && r.Code.Values.Has(key) {
			continue
		}
		r.Out.Refuse("fork", v.Origin.At, "--%s is no setting of nanoGPT, whose configurator stops at it (Unknown config "+
			"key): what takes it is another program; hand over its train.py", key)
	}
}

// isTrain reports whether what was handed over is train.py itself.
func (r *job) isTrain() bool {
	return r.Code != nil && bytes.Contains(r.Code.Source, []byte("configurator.py"))
}

// fork refuses what is no GPT-2 any more: a fork's own settings about the model or its vocabulary.
func (r *job) fork() {
	for _, key := range r.In.Keys() {
		v, _ := r.In.Peek(key)
		if keys[key] || key == "model_args" || !forkWords.MatchString(key) || v.Off() {
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
			r.Out.Refuse("fork", v.Origin.At, "%s = %s is no setting of nanoGPT: this fork %s", key, draft.Clip(v.String()),
				what)
		}
	}
	if r.Code == nil {
		return
	}
	if c, ok := r.Code.Call("dict"); ok && c.Keywords.Has("n_embd") {
		known := setting.SetOf("n_layer", "n_head", "n_embd", "block_size", "bias", "vocab_size", "dropout")
		for _, key := range c.Keywords.Keys() {
			if !known[key] {
				v, _ := c.Keywords.Peek(key)
				r.Out.Refuse("fork", v.Origin.At, "the model takes %s, which nanoGPT's does not", key)
			}
		}
	}
}

func (r *job) model() {
	init, _ := r.In.Get("init_from")
	const model = "/model/nanogpt/"
	name := init.String()
	switch size, ok := sizes[name]; {
	case init.Unknown != "" || name == "resume":
		r.Out.Ask("/model", "Which sizes has the model?", cmp.Or(init.Unknown, "init_from resume: they are "+
			"in the checkpoint"))
	case ok:
		for i, key := range []string{"n_layer", "n_head", "n_embd"} {
			r.Out.Put(model+key, size[i], init)
		}
		r.Out.Put(model+"vocab_size", int64(50257), init)
		r.Out.Put(model+"bias", true, init)
		r.Out.Derive(model+"block_size", int64(1024), "init_from %s", name)
		if v, ok := r.In.Get("block_size"); ok {
			if n, isInt := v.Int(); isInt && n < 1024 {
				r.Out.Put(model+"block_size", n, v)
			}
		}
	default:
		for _, key := range []string{"n_layer", "n_head", "n_embd", "block_size"} {
			r.Number(model+key, "What is "+key+"?", key)
		}
		if v, ok := r.In.Get("bias"); ok && v.Unknown == "" {
			on, _ := v.Bool()
			r.Out.Put(model+"bias", on, v)
		}
		r.vocabulary()
	}
	if v, ok := r.In.Get("dropout"); ok {
		if f, isFloat := v.Float(); isFloat {
			r.Out.Put(model+"dropout", f, v)
		}
	}
}

// vocabulary: the vocabulary is that of the data set's meta.pkl, and 50,304 without one. A pickle is a program
// and is not read; of the data sets that nanoGPT brings only shakespeare_char has one.
func (r *job) vocabulary() {
	const pointer = "/model/nanogpt/vocab_size"
	v, _ := r.In.Get("dataset")
	switch v.String() {
	case "shakespeare_char":
		r.Out.Derive(pointer, int64(65), "data/shakespeare_char/prepare.py prints it")
	case "openwebtext", "shakespeare":
		r.Out.Fall(pointer, int64(50304), "vocab_size", "nanoGPT@3adf61e1 train.py:154")
	default:
		if _, meta, err := r.Open(path.Join(path.Dir(r.Program.Text), "data", v.String(), "meta.pkl")); v.Unknown != "" ||
			meta != nil || err != nil && !errors.Is(err, fs.ErrNotExist) || r.Program.Text == "" {
			r.Out.Ask(pointer, "How large is the vocabulary? 50304 if the data set has no meta.pkl.",
				"it is in the meta.pkl of data set "+draft.Clip(v.String()))
			return
		}
		r.Out.Fall(pointer, int64(50304), "vocab_size", "nanoGPT@3adf61e1 train.py:154")
		r.Out.Settle(pointer, "data set %s has no meta.pkl with a vocabulary of its own: none is there "+
			"(--set model.nanogpt.vocab_size=N)", draft.Clip(v.String()))
		r.Out.Floor(pointer, int64(1), "the vocabulary of data set "+draft.Clip(v.String())+" may be small")
	}
}

// accumulation divides the steps by the processes, as train.py does; of early 2023 it multiplied by 8 on one
// GPU.
func (r *job) accumulation() {
	const pointer = "/training/gradient_accumulation"
	v, _ := r.In.Get("gradient_accumulation_steps")
	n, isInt := v.Int()
	w := r.GPUs()
	r.Out.Sources[pointer] = v
	if !isInt || !w.Known {
		r.NumberOf(pointer, tool.AskAccumulation, v)
		return
	}
	has := func(text string) bool { return r.Code != nil && bytes.Contains(r.Code.Source, []byte(text)) }
	divides := r.Code == nil || has("gradient_accumulation_steps //= ddp_world_size") ||
		has("gradient_accumulation_steps % ")
	switch {
	case has("gradient_accumulation_steps *= 8") && w.N == 1:
		r.Out.Derive(pointer, n*8, "gradient_accumulation_steps %d × 8: this train.py multiplies on one GPU", n)
	case w.N > 1 && divides && n%w.N != 0:
		r.Out.Refuse("cannot-start", v.Origin.At, "train.py stops: gradient_accumulation_steps %d is not divisible by "+
			"the %d processes", n, w.N)
	case w.N > 1 && divides:
		r.Out.Derive(pointer, n/w.N, "gradient_accumulation_steps %d / %d processes", n, w.N)
	default:
		r.Out.Put(pointer, n, v)
	}
}

// nanoGPT divides its accumulation by the processes: the patch multiplies.
var words = tool.Words{"/training/micro_batch": tool.CountWord("batch_size"),
	"/training/gradient_accumulation": tool.CountWord("gradient_accumulation_steps"),
	"/training/sequence_length":       tool.CountWord("block_size")}
