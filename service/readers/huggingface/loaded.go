package huggingface

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/programs"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// gone are arguments that a class lost: a job that has one runs the last release that takes it, or an older one.
// Call is a class whose call has the argument; "" is any configuration of the Trainer, and its command line.
// Sources: the fields of transformers/training_args.py in 4.57.6 and 5.0.0, the parameters of Trainer.__init__ in both;
// SFTTrainer.__init__ of trl/trainer/sft_trainer.py in 0.12.2 and 0.14.0, trl/trainer/sft_config.py in 0.19.1 and
// 0.20.0.
var gone = []struct {
	tool, last, call string
	arguments        []string
}{
	{"transformers", "4.57.6", "", []string{"overwrite_output_dir", "evaluation_strategy", "per_gpu_train_batch_size",
		"per_gpu_eval_batch_size", "save_safetensors", "no_cuda", "fp16_opt_level", "half_precision_backend",
		"fp16_backend", "jit_mode_eval", "past_index", "ray_scope", "tpu_num_cores", "torchdynamo",
		"fsdp_transformer_layer_cls_to_wrap", "include_tokens_per_second", "push_to_hub_token", "adafactor"}},
	{"transformers", "4.57.6", "Trainer", []string{"tokenizer"}},
	{"trl", "0.12.2", "SFTTrainer", []string{"tokenizer", "dataset_text_field", "max_seq_length", "packing"}},
	{"trl", "0.19.1", "SFTConfig", []string{"max_seq_length"}},
}

// shown adds to the releases that a job names those that its words show, and says by which word.
func (r *Job) shown(named map[string]string) (why string) {
	for _, g := range gone {
		if _, ok := named[g.tool]; ok {
			continue
		}
		s := r.In
		if g.call != "" {
			if s = nil; r.Code != nil {
				s = callOf(r.Code, g.call)
			}
		}
		if s == nil {
			continue
		}
		for _, key := range g.arguments {
			v, ok := s.Peek(key)
			if !ok || v.Origin.Kind == setting.Default || r.Code != nil && r.Code.Fields.Has(key) {
				continue
			}
			named[g.tool] = g.last
			if at := v.Origin.At.Where(); at != "" {
				key += " (" + at + ")"
			}
			why = key + " is an argument of " + g.tool + " up to " + g.last + " alone"
			break
		}
	}
	return why
}

func callOf(code *programs.Program, name string) *setting.Settings {
	if c, ok := code.Call(name); ok {
		return c.Keywords
	}
	return nil
}

// running are the releases of transformers and trl that the job runs: those that it names or shows, and of the others
// those that were traced with them. why says by what it was told; "" where nothing tells.
func (r *Job) running() (transformers, trl, why string) {
	named := map[string]string{}
	for _, tool := range []string{"torch", "transformers", "trl"} {
		if v := r.Release(tool); v != "" {
			named[tool] = v
			why = "the job names " + tool + " " + v
		}
	}
	if word := r.shown(named); word != "" && why == "" {
		why = word
	}
	stack := maps.Clone(release.Assumed(named).Releases)
	maps.Copy(stack, named)
	return stack["transformers"], stack["trl"], why
}

// loadedType is the type that the model is loaded in, "" for float32 by default, and what says so. "auto" is that of
// the checkpoint, which is asked for where the trained weights have it.
func (r *Job) loadedType() (string, setting.Value) {
	r.unsaid = nil
	v, ok := r.In.Get("torch_dtype", "dtype", "model_dtype")
	if r.Fresh {
		r.In.Read("torch_dtype", "dtype")
		return models.FreshType(r.Out), v
	}
	if !ok || v.Unknown == "" && (v.Any == nil || v.String() == "None") {
		return r.unsaidType()
	}
	if kind := draft.Dtype(v.String()); kind != "" && v.Unknown == "" {
		return kind, v
	}
	if v.String() == "auto" && v.Unknown == "" {
		if kind, from := models.CheckpointType(r.Launch, r.Out); kind != "" {
			r.Out.Assume("/training/precision", "%s auto (%s) is %s: %s", v.Origin.Key, v.Origin.At.Where(), kind, from)
			return kind, v
		}
	}
	r.Out.Ask("/training/precision", "In which type is the model loaded?", fmt.Sprintf("%s: %s %s", v.Origin.At.Where(),
		v.Origin.Key, cmp.Or(v.Unknown, "is "+v.String())))
	return "", v
}

// unsaidType is the type of a model that is loaded without one, "" for float32, and the default that it comes from.
// Where the release loads a checkpoint in its own type and nobody knows that, it is asked for, or taken for float32,
// which is the largest, where no file tells the release either.
func (r *Job) unsaidType() (string, setting.Value) {
	if r.Loads == "" {
		return "", setting.Value{}
	}
	transformers, trl, why := r.running()
	row := defaults.LoadsIn(r.Loads, trl)
	if r.Loads == defaults.FromPretrained || row.Value != "'float32'" {
		row = defaults.LoadsIn(defaults.FromPretrained, transformers)
	}
	from := setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: row.Key, Ref: row.String()}}
	if row.Value != "'auto'" {
		return "", from
	}
	kind, known := models.CheckpointType(r.Launch, r.Out)
	const pointer, flag = "/training/precision", "(--set versions.transformers=4.57.6)"
	r.unsaid = func() {
		switch {
		case kind == "fp32":
		case kind != "" && why == "":
			r.Out.Assume(pointer, "the model is loaded in %s, %s: no file names a type, and transformers loads a checkpoint "+
				"in its own since 5.0, in float32 before %s", kind, known, flag)
		case kind != "":
			r.Out.Assume(pointer, "the model is loaded in %s, %s: no file names a type, and transformers %s loads a "+
				"checkpoint in its own (%s)", kind, known, transformers, why)
		case why == "" || r.Out.Text("/model/preset") == "":
			r.Out.Assume(pointer, "the model is loaded in float32: no file names a type, and that of the checkpoint, "+
				"which transformers takes since 5.0, is not known; where it is a half type, weights take half as much")
		default:
			r.Out.Ask(pointer, "In which type is the model loaded?", "no file names one: transformers "+transformers+
				" loads "+r.Out.Text("/model/preset")+" in the type in which it is published, which is not known ("+why+")")
		}
	}
	return strings.TrimPrefix(kind, "fp32"), from
}

// byUnsaid says what a field took from the type in which the model is loaded, where no file names that.
func (r *Job) byUnsaid() {
	if r.unsaid != nil {
		r.unsaid()
	}
}

// LoadsModelBy is the function whose default decides: trl's where its trainer is given the model's name.
func (r *Job) LoadsModelBy() string {
	trainer, ok := r.Code.TrainerCall()
	if !ok || slices.Contains([]string{"Trainer", "Seq2SeqTrainer"}, trainer.Name) {
		return defaults.FromPretrained
	}
	v, given := trainer.Keywords.Peek("model")
	if !given && len(trainer.Position) > 0 {
		v = trainer.Position[0]
	}
	if name, isName := v.Any.(string); isName && name != "" && v.Unknown == "" {
		return defaults.ModelOfTRL
	}
	return defaults.FromPretrained
}

// ProgramLoadsBy is LoadsModelBy of a program that takes its arguments from a command line: trl's own programs load by
// their ModelConfig, and hand on what it says.
func (r *Job) ProgramLoadsBy(trl bool) string {
	if r.Code == nil {
		if trl {
			return defaults.ConfigOfTRL
		}
		return defaults.FromPretrained
	}
	call, loads := r.Code.ModelCall()
	switch {
	case loads && call.Spread == nil && !call.Keywords.Any("torch_dtype", "dtype"):
		return defaults.FromPretrained
	case r.Code.Mentions(defaults.ConfigOfTRL):
		return defaults.ConfigOfTRL
	case loads || !trl:
		return defaults.FromPretrained
	}
	return defaults.ModelOfTRL
}
