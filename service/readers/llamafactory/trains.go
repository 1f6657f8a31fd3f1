package llamafactory

import "github.com/vramplan/vramplan/service/readers/setting"

// inferenceOnly refuses LLaMA-Factory's files that train nothing: those that chat, serve and export have a model and a
// template, and training asks for do_train (src/llamafactory/train/sft/workflow.py: "if training_args.do_train").
func (r *job) inferenceOnly() {
	train, ok := r.In.Get("do_train")
	switch {
	case ok && train.Unknown == "" && train.Off():
		r.Out.Refuse("trains-nothing", train.Origin.At, "do_train is off: LLaMA-Factory trains nothing")
	case !ok && r.Program.Text == "" && !r.In.Any(factoryTraining...):
		r.Out.Refuse("trains-nothing", setting.Span{}, "do_train is not there, nor anything else of a training: "+
			"LLaMA-Factory would chat with, serve or export what this file names")
	case !ok:
		v, evaluates := r.In.FirstOn("do_eval", "do_predict")
		if evaluates {
			r.Out.Refuse("trains-nothing", v.Origin.At, "%s without do_train: LLaMA-Factory trains nothing", v.Origin.Key)
		}
	}
}

// factoryTraining are settings that only a training has.
var factoryTraining = []string{"per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate",
	"num_train_epochs", "max_steps", "dataset", "stage"}
