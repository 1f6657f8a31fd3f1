package readers

import (
	"path"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// examples are transformers' example scripts, which train only with do_train (4.57.6 examples/pytorch:
// "if training_args.do_train").
var examples = set("run_clm.py", "run_mlm.py", "run_plm.py", "run_fim.py", "run_glue.py", "run_xnli.py", "run_qa.py",
	"run_qa_beam_search.py", "run_seq2seq_qa.py", "run_ner.py", "run_swag.py", "run_summarization.py",
	"run_translation.py", "run_classification.py", "run_language_modeling.py", "run_squad.py")

// onlyEvaluates refuses a run of the Trainer that is told to evaluate or predict and not to train, of a program that
// asks for that: an example, or one whose text has the word. Others train whatever is said.
func (r *reading) onlyEvaluates() {
	if !examples[path.Base(r.program.Text)] && (r.code == nil || !r.code.Mentions(".do_train")) {
		return
	}
	train, ok := r.s.Get("do_train")
	if ok && (train.Unknown != "" || !train.Off()) {
		return
	}
	if examples[path.Base(r.program.Text)] && !r.s.Any("do_eval", "do_predict") {
		r.d.assume("", "%s trains: without --do_train it does not", path.Base(r.program.Text))
		return
	}
	if v, ok := r.s.FirstOn("do_eval", "do_predict"); ok {
		r.d.refuse("trains-nothing", v.Origin.At, "%s without do_train evaluates, and trains nothing", v.Origin.Key)
	}
}

// inferenceOnly refuses LLaMA-Factory's files that train nothing: those that chat, serve and export have a model and a
// template, and training asks for do_train (src/llamafactory/train/sft/workflow.py: "if training_args.do_train").
func (r *reading) inferenceOnly() {
	train, ok := r.s.Get("do_train")
	switch {
	case ok && train.Unknown == "" && train.Off():
		r.d.refuse("trains-nothing", train.Origin.At, "do_train is off: LLaMA-Factory trains nothing")
	case !ok && r.program.Text == "" && !r.s.Any(factoryTraining...):
		r.d.refuse("trains-nothing", setting.Span{}, "do_train is not there, nor anything else of a training: "+
			"LLaMA-Factory would chat with, serve or export what this file names")
	case !ok:
		v, evaluates := r.s.FirstOn("do_eval", "do_predict")
		if evaluates {
			r.d.refuse("trains-nothing", v.Origin.At, "%s without do_train: LLaMA-Factory trains nothing", v.Origin.Key)
		}
	}
}

// factoryTraining are settings that only a training has.
var factoryTraining = []string{"per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate",
	"num_train_epochs", "max_steps", "dataset", "stage"}

// trainless are programs whose names say that they use a model, or prepare something, and train nothing.
var trainless = regexp.MustCompile(`^(inference|infer|generate|generation|predict|prediction|evaluate|evaluation|` +
	`eval|merge|merge_\w+|preprocess|tokenize|chat|serve|export|convert\w*|quantize)$`)

// lastName is the last part of the program's or the module's name, without its ending.
func (l *launch) lastName() string {
	name := strings.TrimSuffix(path.Base(l.program.Text), ".py")
	return name[strings.LastIndexByte(name, '.')+1:]
}

// preferenceWords are settings that only trainers of preferences have, and nothing that fine-tunes (trl 1.16.0
// trainer/dpo_config.py, kto_config.py, orpo_config.py, cpo_config.py).
var preferenceWords = []string{"beta", "max_prompt_length", "precompute_ref_log_probs", "desirable_weight", "rpo_alpha",
	"cpo_alpha", "simpo_gamma", "ref_model"}

// kindOfFile is the kind of training of a configuration that came without the command that reads it: the word of its
// directory, or "dpo" where it has settings that only trainers of preferences have; "" for fine-tuning.
func (r *reading) kindOfFile() string {
	kind := r.directoryKind()
	if kind == "sft" {
		return ""
	}
	if kind == "" && r.s.Any(preferenceWords...) {
		return "dpo"
	}
	return kind
}

// directoryKind is the kind of training that the nearest part of a configuration's path names: recipes/x/dpo/full.yaml.
func (r *reading) directoryKind() string {
	if r.file == "" {
		return ""
	}
	parts := strings.Split(r.files.shown(r.file), "/")
	for i := len(parts) - 1; i >= 0; i-- {
		part := strings.TrimSuffix(strings.ToLower(parts[i]), path.Ext(parts[i]))
		if part == "sft" || strings.HasPrefix(part, "sft_") || strings.HasSuffix(part, "_sft") {
			return "sft"
		}
		if kind := objectiveOf(part + ".yaml"); kind != "" && trlKinds[kind].config != "" {
			return kind
		}
	}
	return ""
}
