package objectives

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// teacherName is what the model is for that is distilled from.
const teacherName = "teacher"

// gkd is trl's GKDTrainer on the completions of the data set. Where nobody says how long a prompt is, half of the
// sequence is one.
func (r Pursuer) gkd(t *job.Training, errs *invalid.List) step.Objective {
	o := t.Objective
	tokens, prompt := r.Shape.Tokens, o.PromptTokens
	switch {
	case prompt == 0 && o.CompletionTokens > 0:
		prompt = tokens - o.CompletionTokens
	case prompt == 0:
		prompt = tokens / 2
	}
	if tokens > 0 && (prompt < 1 || prompt >= tokens) {
		errs.Add(fields.ObjectivePointer+"/prompt_tokens", "out_of_range", "of the %d tokens of a sequence a prompt has at "+
			"least one and a completion, too", tokens)
		prompt = 1
	}
	beta := *o.Beta
	if beta > 1 {
		errs.Add(fields.ObjectivePointer+"/beta", "out_of_range", "beta is %g; it weighs two divergences, from 0 to 1", beta)
	}
	teacherCaches := r.teacher(t, errs)
	way := objective.BothWays
	switch beta {
	case 0:
		way = objective.FromTeacher
	case 1:
		way = objective.FromStudent
	}
	return objective.GKD{Rows: t.MicroBatch, Prompt: prompt, Completion: tokens - prompt, OneWay: way,
		Whole:  r.rewritten(errs),
		Caches: r.Arch.UseCache && r.Recompute.Every == 0, CachesEvaluated: r.Arch.UseCache,
		TeacherCaches: teacherCaches}
}

// teacher puts the model that is distilled from beside the trained one, and says whether it fills a cache: nobody sets
// its configuration's use_cache.
func (r Pursuer) teacher(t *job.Training, errs *invalid.List) bool {
	o := t.Objective
	pointer := fields.ObjectivePointer + "/teacher"
	if o.Teacher == nil || o.Teacher.HFConfig == nil {
		errs.Add(pointer, "required", "teacher is missing: the model that is distilled from, as "+
			`{"hf_config": {…}}`)
		return false
	}
	dtype := r.besideType(fields.Named(o.TeacherDtype, step.BF16, fields.ObjectivePointer+"/teacher_dtype", errs))
	a := model.FromHF(o.Teacher.HFConfig, pointer+"/hf_config", errs)
	if a.Family == "" || r.Arch.Family == "" {
		return false // said already
	}
	refuse := func(is bool, code, format string, args ...any) {
		if is {
			errs.Add(pointer+"/hf_config", code, format, args...)
		}
	}
	refuse(!a.LanguageModel(), "unsupported", "a teacher is a decoder with a language-model head, and %s is none as it "+
		"is given", a.Family)
	refuse(a.Vocabulary != r.Arch.Vocabulary, "conflict", "the teacher has a vocabulary of %d and the student one of "+
		"%d; the divergence is of distributions over the same tokens", a.Vocabulary, r.Arch.Vocabulary)
	refuse(a.EagerOnly != r.Arch.EagerOnly || a.SDPAOnly != r.Arch.SDPAOnly, "unsupported",
		"a teacher whose attention runs otherwise than the student's is not modelled yet")
	r.Beside = append(r.Beside, resolved.Companion{Name: teacherName, Arch: a, Dtype: dtype, Passed: true})
	return a.UseCache || a.CachesInEvaluation || a.CachesInTrainingLater && r.Holds(arch.CachesInTraining)
}
