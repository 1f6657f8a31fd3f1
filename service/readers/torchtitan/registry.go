package torchtitan

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Since February 2026 torchtitan's configurations are functions of Python that return a Trainer.Config, and --module
// and --config choose one (torchtitan@9810191bb torchtitan/config/manager.py). What such a function puts together has
// the sections of the TOML before it; what differs is made equal here, so that one reader maps both.

const (
	result       = "Trainer.Config"
	refRegistry  = "torchtitan@b5bcd76c torchtitan/trainer.py Trainer.Config"
	refFormerAC  = "torchtitan@9810191bb torchtitan/config/configs.py:259"
	refTitanLoss = "torchtitan@b5bcd76c torchtitan/components/loss.py:544"
	refTitanAdam = "torchtitan@b5bcd76c torchtitan/components/optimizer/optimizer.py:378"
)

// function finds the function that a command names; ok is false where it names none.
func (r *job) function(s *setting.Settings) (module, function setting.Value, ok bool) {
	module, hasModule := s.Get("module")
	function, hasFunction := s.Get("config")
	base := r.Base()
	switch {
	case r.Module && base == "torchtitan.train", base == "train.py" && hasModule:
	case strings.HasPrefix(base, "run_") && strings.HasSuffix(base, ".sh"):
		if w, given := r.Env("MODULE"); given && !hasModule {
			module, hasModule = launch.Environment(w, "MODULE"), true
		}
		if w, given := r.Env("CONFIG"); given && !hasFunction {
			function, hasFunction = launch.Environment(w, "CONFIG"), true
		}
	default:
		return module, function, false
	}
	return module, function, hasModule && hasFunction
}

// built takes over what the function puts together; the settings of the command line stay above it.
func (r *job) built(module, function setting.Value) {
	at := function.Origin.At
	if why := module.Unknown + function.Unknown; why != "" {
		r.refuseLater("missing-file", at, "which configuration it is cannot be told: "+why)
		return
	}
	for _, name := range registryFiles(module.String()) {
		full, text, err := r.Open(name, r.Dir, r.Beside(at))
		if err != nil || text == nil {
			continue
		}
		built, ok, err := decode.Build(r.Files.Shown(full), text, function.String())
		switch {
		case err != nil:
			r.refuseLater("not-readable", setting.Span{File: r.Files.Shown(full)}, err.Error())
			return
		case !ok:
			r.refuseLater("missing-file", at, fmt.Sprintf("%s has no function %s", r.Files.Shown(full),
				function.String()))
			return
		}
		r.File = full
		r.sections(built, module)
		return
	}
	r.refuseLater("missing-file", at, fmt.Sprintf("the function %s of the module %s is in a config_registry.py that "+
		"is not there: hand it over too", function.String(), module.String()))
}

func (r *job) refuseLater(code string, at setting.Span, say string) {
	r.Problems = append(r.Problems, func(d *draft.Draft) { d.Refuse(code, at, "%s", say) })
}

// file takes a registry that was handed over without a command; nil where the file is none. What is refused
// already is not read.
func file(f *source.Files, full string, text []byte) (*tool.Job, tool.Reader) {
	shown := f.Shown(full)
	names := decode.Builders(text, result)
	if len(names) == 0 || !strings.Contains(string(text), "torchtitan") {
		return nil, nil
	}
	r := &job{Job: &tool.Job{Launch: launch.Alone(f), File: full, Out: draft.New(name), In: setting.New()}}
	if len(names) > 1 {
		r.Out.Refuse("several", setting.Span{File: shown}, "it holds %d configurations: name one as the job does, with: "+
			"-- python -m torchtitan.train --module MODULE --config NAME; there are %s", len(names),
			strings.Join(names, ", "))
		return r.Job, nil
	}
	built, _, err := decode.Build(shown, text, names[0])
	if err != nil {
		r.Out.Refuse("not-readable", setting.Span{File: shown}, "%v", err)
		return r.Job, nil
	}
	r.sections(built, setting.Value{Any: path.Base(path.Dir(full)), Origin: setting.Origin{Kind: setting.Derived,
		How: "the folder of the file"}})
	return r.Job, r
}

// sections gives what was put together the names of the TOML's sections.
func (r *job) sections(built *decode.Built, module setting.Value) {
	s := built.Settings
	if whole := built.Calls[""]; !strings.HasSuffix(whole.String(), result) {
		r.refuseLater("unsupported", whole.Origin.At, "it returns a "+whole.String()+
			", not a Trainer.Config: what it trains is not turned into a job")
		return
	}
	name := strings.TrimSuffix(module.String(), ".config_registry")
	module.Any = name[strings.LastIndexByte(name, '.')+1:]
	s.Set("model.name", module)
	if flavor, ok := s.Get("model_spec.0", "model_spec.flavor"); ok {
		s.Set("model.flavor", flavor)
	}
	for _, key := range []string{"model_spec.converters", "model_converters.converters"} {
		if v, ok := s.Get(key); ok {
			v.Origin.Key = key
			s.Set("model.converters", v)
		}
	}
	ignore := setting.SetOf(r.Files.Source.Ignore...)
	for _, v := range built.Loose {
		called, _, _ := strings.Cut(v.Text, "(")
		if ignore[v.Text] || ignore[called] {
			continue
		}
		r.Problems = append(r.Problems, func(d *draft.Draft) { d.AskWord(v) })
	}
	r.policies(built)
	r.tokens(s)
	merged := s.Clone()
	merged.Over(r.In)
	r.In = merged
	merged.Read("module", "config", "loss", "loss.*", "model_spec.0", "model_spec.flavor", "model_spec.converters",
		"model_spec.tp_gemm_backend", "model_spec.attn_backend",
		"model_converters", "model_converters.*", "hf_assets_path", "dump_folder", "tokenizer", "tokenizer.*",
		"profiler", "profiler.*", "validator", "validator.*",
		"dataloader.*", "training.num_tokens*", "training.max_context_length", "training.disable_cuda_graphs",
		"training.gc_debug", "debug.*")
}

// policies reads what classes say that were words in the TOML: checkpointing, the optimizer and the loss.
func (r *job) policies(built *decode.Built) {
	s := built.Settings
	put := func(key string, value any, from setting.Value) {
		from.Any, from.Unknown = value, ""
		from.Origin.Key = key
		s.Set(key, from)
	}
	standing := func(key, ref string) setting.Value {
		return setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: key, Ref: ref}}
	}
	policy, called := built.Calls["activation_checkpoint"]
	former := s.Any("training.local_batch_size", "training.seq_len")
	switch name := policy.String(); {
	case s.Has("activation_checkpoint"):
		v, _ := s.Get("activation_checkpoint")
		put("activation_checkpoint.mode", "none", v)
	case called && strings.HasPrefix(name, "SelectiveAC"):
		put("activation_checkpoint.mode", "selective", policy)
		put("activation_checkpoint.selective_ac_option", "op", policy)
	case called && strings.HasPrefix(name, "FullAC"):
		put("activation_checkpoint.mode", "full", policy)
	case called && !strings.HasPrefix(name, "ActivationCheckpointConfig"):
		put("activation_checkpoint.mode", strings.TrimSuffix(name, ".Config"), policy)
	case former && !s.Has("activation_checkpoint.mode"):
		put("activation_checkpoint.mode", "selective", standing("activation_checkpoint.mode", refFormerAC))
	case !called:
		put("activation_checkpoint.mode", "selective", standing("activation_checkpoint", refRegistry))
		put("activation_checkpoint.selective_ac_option", "op", standing("activation_checkpoint", refRegistry))
	}
	if mode := s.Text("activation_checkpoint.mode"); mode == "selective" &&
		!s.Has("activation_checkpoint.selective_ac_option") {
		put("activation_checkpoint.selective_ac_option", "2", standing("activation_checkpoint.selective_ac_option",
			refFormerAC))
	}

	optimizer, called := built.Calls["optimizer"]
	switch name := optimizer.String(); {
	case s.Has("optimizer.param_groups"):
		v, _ := s.Get("optimizer.param_groups")
		r.refuseLater("unsupported", v.Origin.At, "several groups of parameters with optimizers of their own are not "+
			"turned into a job")
	case called && name != "default_adamw" && name != "OptimizersContainer.Config":
		r.refuseLater("unsupported", optimizer.Origin.At, "the optimizer "+name+" is not turned into a job")
	case !s.Has("optimizer.name"):
		v := optimizer
		if !called {
			v = standing("optimizer", refTitanAdam)
		}
		put("optimizer.name", "AdamW", v)
	}

	loss, called := built.Calls["loss"]
	switch name := loss.String(); {
	case !called, strings.HasPrefix(name, "CrossEntropyLoss"):
	case strings.HasPrefix(name, "ChunkedLossWrapper"), strings.HasPrefix(name, "ChunkedCELoss"):
		chunks := standing("loss.num_chunks", refTitanLoss)
		chunks.Any = int64(8)
		if v, ok := s.Get("loss.num_chunks"); ok {
			chunks = v
		}
		r.Problems = append(r.Problems, func(d *draft.Draft) {
			if n, ok := chunks.Int(); ok && n > 0 {
				d.Put("/training/loss", map[string]any{"kind": "chunked", "chunks": n, "head": "chunked"}, chunks)
				return
			}
			d.Ask("/training/loss", "In how many chunks is the loss computed?", loss.Origin.At.Where())
		})
	default:
		r.refuseLater("objective", loss.Origin.At, "the loss "+name+" is not modelled")
	}
}

// tokens divides the tokens of a micro-batch, which the registries of August 2026 give, by the context's length.
func (r *job) tokens(s *setting.Settings) {
	const tokens, length = "training.num_tokens_per_microbatch_per_dp_rank", "training.max_context_length"
	if s.Any("training.local_batch_size", "training.seq_len") {
		return
	}
	number := func(v setting.Value, fallback int64) (setting.Value, int64) {
		if n, ok := v.Int(); ok && n > 0 && v.Unknown == "" {
			return v, n
		}
		if v.Unknown == "" && !v.Given() {
			v = setting.Value{Any: fallback, Origin: setting.Origin{Kind: setting.Default,
				Ref: "torchtitan@b5bcd76c torchtitan/config/configs.py TrainingConfig"}}
			return v, fallback
		}
		return v, 0
	}
	given := func(key string) setting.Value {
		s.Read(key)
		if v, ok := r.In.Get(key); ok { // the command line's
			return v
		}
		v, _ := s.Get(key)
		return v
	}
	t, inBatch := number(given(tokens), 16384)
	l, inSequence := number(given(length), 2048)
	s.Set("training.seq_len", l)
	switch {
	case inBatch == 0 || inSequence == 0:
		s.Set("training.local_batch_size", setting.Value{Unknown: "the tokens of a micro-batch cannot be told",
			Origin: t.Origin})
	case inBatch%inSequence != 0:
		s.Set("training.local_batch_size", setting.Value{Unknown: fmt.Sprintf("%d tokens are not a whole number "+
			"of sequences of %d", inBatch, inSequence), Origin: t.Origin})
	default:
		s.Set("training.local_batch_size",
			setting.Value{Any: inBatch / inSequence, Origin: setting.Origin{Kind: setting.Derived,
				How: fmt.Sprintf("%d tokens a micro-batch / %d of context, %s", inBatch, inSequence,
					cmp.Or(t.Origin.At.Where(), "a default"))}})
	}
	step := given("training.num_tokens_per_train_step")
	if n, isInt := step.Int(); isInt && n > 0 && inSequence > 0 {
		step.Any = n / inSequence
		s.Set("training.global_batch_size", step)
	}
	if v, ok := s.Get("training.disable_cuda_graphs"); !ok || !v.On() {
		r.Problems = append(r.Problems, func(d *draft.Draft) {
			d.Uncertain("", "the step is captured as a CUDA graph unless --training.disable_cuda_graphs is given; "+
				"what a graph holds on to is not modelled")
		})
	}
	r.Problems = append(r.Problems, func(d *draft.Draft) {
		d.Uncertain("/training/attention", "documents are packed and the attention is flex attention or one for "+
			"packed sequences; it is replayed as PyTorch's flash kernel, which keeps the same tensors")
	})
}

// registryFiles are where torchtitan looks for a module's configurations: short names in its own folders, others as
// modules of Python.
func registryFiles(module string) []string {
	dotted := strings.ReplaceAll(module, ".", "/")
	names := []string{dotted + "/config_registry.py", dotted + ".py"}
	if !strings.Contains(module, ".") {
		for _, folder := range []string{"torchtitan/models/", "torchtitan/experiments/",
			"torchtitan/experiments/rl/examples/"} {
			names = append(names, folder+module+"/config_registry.py")
		}
	}
	return append(names, "config_registry.py")
}
