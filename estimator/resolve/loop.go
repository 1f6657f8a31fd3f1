package resolve

import (
	"sort"
	"strings"

	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/resolved"
)

var setsUseCache = resolved.Of(func(r *resolved.Job) bool {
	return r.By.Cache == frameworks.TrainersWord && r.Filled && !r.OwnLoop && !On(r).readsOtherConfig()
}, release.Declare("sets-use-cache", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What: "the Trainer of transformers 5 sets use_cache of a model's configuration to its own argument of that " +
		"name, false where nothing is said: no key/value cache is filled, neither in training nor in an evaluation, " +
		"whatever the configuration says, but in T5's decoder and in models with towers, which read another one",
	Source: "trainer.py (Trainer.__init__), training_args.py (use_cache), 4.57.6, 5.0.0 and 5.23.0",
	Shown:  "steps and evaluations of decoders in the Trainer itself",
}))

// caches says whether the configuration's use_cache counts. Sources: transformers/trainer.py (Trainer.__init__), which
// trl, sentence-transformers and unsloth run; axolotl 0.18 loaders/utils.py (check_model_config), LLaMA-Factory 0.9.6
// model/model_utils/kv_cache.py (configure_kv_cache), ms-swift 4.6 trainers/mixin.py (_prepare_gradient_checkpointing),
// xtuner 0.1.23 model/sft.py (SupervisedFinetune). copied is that of the model, which the Trainer is given whole.
func (r resolver) caches(copied bool) bool {
	switch r.By.Cache {
	case frameworks.SwitchedOff:
		return false
	case frameworks.TrainersWord:
		return r.OwnLoop || copied || !r.Holds(setsUseCache)
	}
	return true
}

// FrameworkNames lists the frameworks, in order.
func FrameworkNames() []string {
	names := make([]string, 0, len(frameworks.Frameworks))
	for n := range frameworks.Frameworks {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// follow is the framework that counts, and whether it is known: what else is wrong with the job of another is said as
// under one that does nothing of its own.
func (r resolver) follow(name string) (known bool) {
	r.Framework = name
	if r.By, known = frameworks.Frameworks[name]; !known {
		r.By = frameworks.Frameworks["xtuner"]
	}
	return known
}

// loop takes the defaults of the framework where the job does not say.
func (r resolver) loop(t *job.Training, errs *invalid.List) {
	name := t.Framework
	if name == "" {
		name = "hf-trainer"
		switch rec := recordings.Recording(&r.Arch); {
		case r.Arch.NanoGPT():
			name = "nanogpt"
		case rec != nil && !r.Arch.Reentrant:
			name = "pytorch"
		}
	}
	if !r.follow(name) {
		errs.Add("/training/framework", "unknown_value", "framework is %.40q; %s are accepted", r.Framework,
			strings.Join(FrameworkNames(), ", "))
	}
	f := r.By
	holds := f.Output > frameworks.Goes
	switch said := t.HoldLogits; {
	case said == nil:
	case *said == holds: // what the loop does anyway
		t.HoldLogits = nil
	default:
		holds = *said
	}
	r.Outputs = resolved.Outputs{
		Held:     holds,
		Widened:  holds && f.Output == frameworks.Widened,
		Unpacked: f.Output == frameworks.Unpacked,
	}
	r.OwnModules = f.OwnModules == frameworks.Yes
	r.Filled = r.Arch.UseCache
	if !r.caches(r.readsOtherConfig()) {
		r.Arch.UseCache, r.Arch.CachesInTrainingLater, r.Arch.CachesInEvaluation = false, false, false
	}
	compiled := t.Compile != nil && t.Compile.Model // what inductor makes of its modules was not traced
	if f.Rewritten == frameworks.Yes && !compiled {
		rewritten.WriteAsLitGPT(&r.Arch)
	}
}

// readsOtherConfig says that the text model reads another configuration than that of the whole, on which the Trainer
// sets use_cache: a copy, or text_config. Source: transformers/utils/generic.py (merge_with_config_defaults), 5.23.
func (r resolver) readsOtherConfig() bool { return r.Arch.CopiesConfig || r.Arch.HasTower() }
