package trainer

import (
	"path"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/programs"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// examples are transformers' example scripts, which train only with do_train (4.57.6 examples/pytorch:
// "if training_args.do_train").
var examples = setting.SetOf("run_clm.py", "run_mlm.py", "run_plm.py", "run_fim.py", "run_glue.py", "run_xnli.py", "run_qa.py",
	"run_qa_beam_search.py", "run_seq2seq_qa.py", "run_ner.py", "run_swag.py", "run_summarization.py",
	"run_translation.py", "run_classification.py", "run_language_modeling.py", "run_squad.py")

// onlyEvaluates refuses a run of the Trainer that is told to evaluate or predict and not to train, of a program that
// asks for that: an example, or one whose text has the word. Others train whatever is said.
func (r *job) onlyEvaluates() {
	if !examples[path.Base(r.Program.Text)] && (r.Code == nil || !r.Code.Mentions(".do_train")) {
		return
	}
	train, ok := r.In.Get("do_train")
	if ok && (train.Unknown != "" || !train.Off()) {
		return
	}
	if examples[path.Base(r.Program.Text)] && !r.In.Any("do_eval", "do_predict") {
		r.Out.Assume("", "%s trains: without --do_train it does not", path.Base(r.Program.Text))
		return
	}
	if v, ok := r.In.FirstOn("do_eval", "do_predict"); ok {
		r.Out.Refuse("trains-nothing", v.Origin.At, "%s without do_train evaluates, and trains nothing", v.Origin.Key)
	}
}

// Trainless are programs whose names say that they use a model, or prepare something, and train nothing.
var Trainless = regexp.MustCompile(`^(inference|infer|generate|generation|predict|prediction|evaluate|evaluation|` +
	`eval|merge|merge_\w+|preprocess|tokenize|chat|serve|export|convert\w*|quantize)$`)

// preferenceWords are settings that only trainers of preferences have, and nothing that fine-tunes (trl 1.16.0
// trainer/dpo_config.py, kto_config.py, orpo_config.py, cpo_config.py).
var preferenceWords = []string{"beta", "max_prompt_length", "precompute_ref_log_probs", "desirable_weight", "rpo_alpha",
	"cpo_alpha", "simpo_gamma", "ref_model"}

// strangeKind asks what a program trains that nobody knows and that is given settings of trainers of preferences.
func (r *job) strangeKind() {
	for _, key := range preferenceWords {
		v, ok := r.In.Peek(key)
		if !ok || r.Code != nil && r.Code.Fields.Has(key) {
			continue
		}
		r.Out.Ask("/training/objective/kind", "What does "+path.Base(r.Program.Text)+" train: preferences, as dpo or kto?",
			v.Origin.At.Where()+": "+v.Origin.Key+" is a setting of trainers of preferences, which hold pairs and a reference")
		return
	}
}

// kindOfFile is the kind of training of a configuration that came without the command that reads it: the word of its
// directory, or "dpo" where it has settings that only trainers of preferences have; "" for fine-tuning.
func (r *job) kindOfFile() string {
	kind := r.directoryKind()
	if kind == "sft" {
		return ""
	}
	if kind == "" && r.In.Any(preferenceWords...) {
		return "dpo"
	}
	return kind
}

// directoryKind is the kind of training that the nearest part of a configuration's path names: recipes/x/dpo/full.yaml.
func (r *job) directoryKind() string {
	if r.File == "" {
		return ""
	}
	parts := strings.Split(r.Files.Shown(r.File), "/")
	for i := len(parts) - 1; i >= 0; i-- {
		part := strings.TrimSuffix(strings.ToLower(parts[i]), path.Ext(parts[i]))
		if part == "sft" || strings.HasPrefix(part, "sft_") || strings.HasSuffix(part, "_sft") {
			return "sft"
		}
		if kind := tool.ObjectiveOf(part + ".yaml"); kind != "" && programs.Kinds[kind].Config != "" {
			return kind
		}
	}
	return ""
}
