package readers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// The functions and classes that say in which type a model is loaded where the job says none.
const (
	fromPretrained = "from_pretrained"
	modelOfTRL     = "create_model_from_path"
	configOfTRL    = "ModelConfig"
)

// loads are the types in which a model is loaded where nobody says one: by transformers itself, by trl's trainers that
// are given its name, and by trl's own programs. "None", and what trl did not hand on, is what transformers does.
var loads = []Default{
	{"transformers", "", "torch_dtype", "None", "transformers/modeling_utils.py", fromPretrained, "float32"},
	{"transformers", "4.57.6", "dtype", "None", "transformers/modeling_utils.py", fromPretrained, "float32"},
	{"transformers", "5.0.0", "dtype", "'auto'", "transformers/modeling_utils.py", fromPretrained,
		"the type of the checkpoint"},
	{"trl", "0.24.0", "dtype", "None", "trl/trainer/utils.py", modelOfTRL, "as transformers loads it"},
	{"trl", "0.26.0", "dtype", "'auto'", "trl/trainer/utils.py", modelOfTRL, "not handed on: as transformers loads it"},
	{"trl", "0.27.0", "dtype", "'float32'", "trl/trainer/utils.py", modelOfTRL, ""},
	{"trl", "", "torch_dtype", "None", "trl/trainer/model_config.py", configOfTRL, "as transformers loads it"},
	{"trl", "0.23.0", "dtype", "None", "trl/trainer/model_config.py", configOfTRL, "as transformers loads it"},
	{"trl", "0.27.0", "dtype", "'float32'", "trl/trainer/model_config.py", configOfTRL, ""},
}

// loadsIn is the row of a class or function that holds in a release.
func loadsIn(class, version string) (row Default) {
	for _, d := range loads {
		if d.Class == class && !older(version, d.From) {
			row = d // rows are in the order of releases
		}
	}
	return row
}

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
func (r *reading) shown(named map[string]string) (why string) {
	for _, g := range gone {
		if _, ok := named[g.tool]; ok {
			continue
		}
		s := r.s
		if g.call != "" {
			if s = nil; r.code != nil {
				s = callOf(r.code, g.call)
			}
		}
		if s == nil {
			continue
		}
		for _, key := range g.arguments {
			v, ok := s.Peek(key)
			if !ok || v.Origin.Kind == setting.Default || r.code != nil && r.code.Fields.Has(key) {
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

func callOf(code *decode.Program, name string) *setting.Settings {
	if c, ok := code.Call(name); ok {
		return c.Keywords
	}
	return nil
}

// running are the releases of transformers and trl that the job runs: those that it names or shows, and of the others
// those that were traced with them. why says by what it was told; "" where nothing tells.
func (r *reading) running() (transformers, trl, why string) {
	named := map[string]string{}
	for _, tool := range []string{"torch", "transformers", "trl"} {
		if v := r.release(tool); v != "" {
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
func (r *reading) loadedType() (string, setting.Value) {
	r.unsaid = nil
	v, ok := r.s.Get("torch_dtype", "dtype", "model_dtype")
	if r.fresh {
		r.s.Read("torch_dtype", "dtype")
		return freshType(r.d), v
	}
	if !ok || v.Unknown == "" && (v.Any == nil || v.String() == "None") {
		return r.unsaidType()
	}
	if kind := dtype(v.String()); kind != "" && v.Unknown == "" {
		return kind, v
	}
	if v.String() == "auto" && v.Unknown == "" {
		if kind, from := checkpointType(r.launch, r.d); kind != "" {
			r.d.assume("/training/precision", "%s auto (%s) is %s: %s", v.Origin.Key, v.Origin.At.Where(), kind, from)
			return kind, v
		}
	}
	r.d.ask("/training/precision", "In which type is the model loaded?", fmt.Sprintf("%s: %s is %s", v.Origin.At.Where(),
		v.Origin.Key, cmp.Or(v.Unknown, v.String())))
	return "", v
}

// unsaidType is the type of a model that is loaded without one, "" for float32, and the default that it comes from.
// Where the release loads a checkpoint in its own type and nobody knows that, it is asked for, or taken for float32,
// which is the largest, where no file tells the release either.
func (r *reading) unsaidType() (string, setting.Value) {
	if r.loads == "" {
		return "", setting.Value{}
	}
	transformers, trl, why := r.running()
	row := loadsIn(r.loads, trl)
	if r.loads == fromPretrained || row.Value != "'float32'" {
		row = loadsIn(fromPretrained, transformers)
	}
	from := setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: row.Key, Ref: row.String()}}
	if row.Value != "'auto'" {
		return "", from
	}
	kind, known := checkpointType(r.launch, r.d)
	const pointer, flag = "/training/precision", "(--set versions.transformers=4.57.6)"
	r.unsaid = func() {
		switch {
		case kind == "fp32":
		case kind != "" && why == "":
			r.d.assume(pointer, "the model is loaded in %s, %s: no file names a type, and transformers loads a checkpoint "+
				"in its own since 5.0, in float32 before %s", kind, known, flag)
		case kind != "":
			r.d.assume(pointer, "the model is loaded in %s, %s: no file names a type, and transformers %s loads a "+
				"checkpoint in its own (%s)", kind, known, transformers, why)
		case why == "" || r.d.text("/model/preset") == "":
			r.d.assume(pointer, "the model is loaded in float32: no file names a type, and that of the checkpoint, "+
				"which transformers takes since 5.0, is not known; where it is a half type, weights take half as much")
		default:
			r.d.ask(pointer, "In which type is the model loaded?", "no file names one: transformers "+transformers+
				" loads "+r.d.text("/model/preset")+" in the type in which it is published, which is not known ("+why+")")
		}
	}
	return strings.TrimPrefix(kind, "fp32"), from
}

// byUnsaid says what a field took from the type in which the model is loaded, where no file names that.
func (r *reading) byUnsaid() {
	if r.unsaid != nil {
		r.unsaid()
	}
}

// loadsModelBy is the function whose default decides: trl's where its trainer is given the model's name.
func (r *reading) loadsModelBy() string {
	trainer, ok := trainerCall(r.code)
	if !ok || slices.Contains([]string{"Trainer", "Seq2SeqTrainer"}, trainer.Name) {
		return fromPretrained
	}
	v, given := trainer.Keywords.Peek("model")
	if !given && len(trainer.Position) > 0 {
		v = trainer.Position[0]
	}
	if name, isName := v.Any.(string); isName && name != "" && v.Unknown == "" {
		return modelOfTRL
	}
	return fromPretrained
}

// programLoadsBy is loadsModelBy of a program that takes its arguments from a command line: trl's own programs load by
// their ModelConfig, and hand on what it says.
func (r *reading) programLoadsBy(trl bool) string {
	if r.code == nil {
		if trl {
			return configOfTRL
		}
		return fromPretrained
	}
	call, loads := modelCall(r.code)
	switch {
	case loads && call.Spread == nil && !call.Keywords.Any("torch_dtype", "dtype"):
		return fromPretrained
	case r.code.Mentions(configOfTRL):
		return configOfTRL
	case loads || !trl:
		return fromPretrained
	}
	return modelOfTRL
}
