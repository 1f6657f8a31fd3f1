package estimator

import (
	"fmt"
	"slices"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// Of 322 traced runs of trl's trainers the replay reserves 4.0 % less to 7.4 % more than was traced, and allocates 0.5
// % less to 1.0 % more. A run of another family or switch may differ more: of 75 kept since, without quantised bases,
// one (a TinyLlama with adapters) reserves 9 % less, and one of two layers with a vocabulary of 5,000 reserves 45 %
// more.
var objectiveDoubt = doubt{"objective", memory.Doubt{Below: 0.08, Above: 0.05},
	"trl's trainers were replayed from their source; 322 traced runs reserve 7 % less to 4 % more than their replay"}

// Of 41 traced runs with a base in nf4 or int8 the replay allocates 0.6 % less to 0.9 % more, and 38 reserve within 6 %
// of it. The others are of trl 0.26, whose trainers prepare the base: DPO of a Llama with a vocabulary of 128,256
// reserves 22 % less, twice, and DPO of Qwen3 in pure bfloat16 17 % more. from_pretrained warms the allocator up with a
// block of half the model's size and quantises weight by weight within it, and the replay moves module by module: what
// is left of either is found again by other tensors.
var quantisedTrainerDoubt = doubt{"quantised-base", memory.Doubt{Below: 0.22, Above: 0.18},
	"of 41 traced runs of trl's trainers on a base in nf4 or int8 three reserve 22 % less and 17 % more than their replay, " +
		"which loads the base in another order than transformers does"}

// Of the traced ranks of GRPO under ZeRO and FSDP (go run ./estimator/accuracy -kinds) the replay reserves 30 % less to
// 9 % more: the cache that grows token by token leaves other holes in memory that gathered weights come and go in.
var dealtGenerationDoubt = doubt{"dealt-generation", memory.Doubt{Below: 0.10, Above: 0.45},
	"how a growing key/value cache fragments memory beside weights that are gathered and let go of is not replayed"}

// In four traced runs generation holds 0.4 to 1.4 % more than is replayed of it; none had its peak there, and none
// wrote more than 96 tokens.
var generationDoubt = doubt{"generation", memory.Doubt{Below: 0.05, Above: 0.10},
	"the peak is in generation, of which the pass of the prompts and the last token are replayed; no traced run " +
		"had its peak there"}

// Of 24 traced runs of sentence-transformers' trainer the replay allocates 0.03 % less to 0.13 % more, and reserves up
// to 1 % more. All ran without padding and on one stack.
var contrastiveDoubt = doubt{"objective", memory.Doubt{Below: 0.05, Above: 0.05},
	"sentence-transformers' trainer was replayed from its source, and few of its runs were traced"}

// Of the traced runs of diffusers' scripts, accuracy -kinds prints how far each is off. None ran on a card, of whose
// kernels a script's other launches are not known.
var diffusionDoubt = doubt{"objective", memory.Doubt{Below: 0.05, Above: 0.05},
	"diffusers' scripts were replayed from their source, and few of their runs were traced"}

// objectiveDoubts are those about a trainer.
func (r *work) objectiveDoubts(run *run) []doubt {
	if r.recipe.Objective == nil {
		return nil
	}
	if _, contrasts := r.recipe.Objective.(objective.Contrastive); contrasts {
		return []doubt{contrastiveDoubt}
	}
	if _, unets := r.recipe.Objective.(objective.Noise); unets {
		return []doubt{diffusionDoubt, convolutionDoubt}
	}
	if o, diffuses := r.recipe.Objective.(objective.Diffusion); diffuses {
		m := &run.ledger.Peak
		if o.CachedLatents || m.Backward || m.Stage == play.StageOptimizer { // where no convolution runs
			return []doubt{diffusionDoubt}
		}
		return []doubt{diffusionDoubt, convolutionDoubt}
	}
	list := []doubt{objectiveDoubt}
	if r.arch.LoRA != nil && r.arch.LoRA.Base != step.NotQuantised {
		list = append(list, quantisedTrainerDoubt)
	}
	if g, writes := r.recipe.Objective.(objective.GRPO); writes && g.Generates && r.recipe.Strategy != nil {
		list = append(list, dealtGenerationDoubt)
	}
	if run.ledger.Peak.Stage == play.StageGeneration {
		list = append(list, generationDoubt)
	}
	return list
}

// objectiveNotes say what of a trainer is seldom expected.
func (r *resolved) objectiveNotes(t *Training) []Note {
	if r.recipe.Objective == nil {
		return nil
	}
	if pipelines.Diffuses(&r.arch) {
		return r.diffusionNotes(t)
	}
	notes := r.contrastiveNotes(t)
	add := func(code, format string, args ...any) {
		notes = append(notes, Note{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	for i := range r.beside {
		c := &r.beside[i]
		if r.dealsBeside() {
			add("model-beside", "a %s stands beside the trained model and is dealt out like it: %s over %d GPUs", c.name,
				Bytes(c.arch.ParameterCount()*c.dtype.Size()), t.Distributed.WorldSize)
			continue
		}
		if c.name != referenceName || r.together != nil {
			add("model-beside", "a %s stands on the card beside the trained model: %s", c.name,
				Bytes(c.arch.ParameterCount()*c.dtype.Size()))
			continue
		}
		add("reference-doubles-weights", "a %s stands on the card beside the trained model: %s; adapters, whose base "+
			"is the reference, or precompute_ref_log_probs save it",
			c.name, Bytes(c.arch.ParameterCount()*c.dtype.Size()))
	}
	if c := r.together; c != nil {
		add("value-model", "a %s is trained together with the policy: %s of weights, with gradients and "+
			"optimizer state "+
			"like the policy's", c.name, Bytes(c.arch.ParameterCount()*c.dtype.Size()))
	}
	kind := t.ObjectiveKind()
	fused := r.holds(fusesTRLHead)
	if fused && slices.Contains([]string{"sft", "dpo", "kto", "grpo", "rloo"}, kind) {
		add("no-logits", "trl %s computes log-probabilities without logits, tile by tile", r.trlVersion())
	}
	if kind == "dpo" && !fused && r.recipe.Autocast && r.recipe.Stored.Half() {
		add("hidden-states-copied", "DPOTrainer of trl %s asks for all hidden states, which accelerate makes "+
			"float32: %s in each pass", r.trlVersion(),
			Bytes((r.arch.Layers+1)*2*r.shape.N()*r.arch.Hidden*4))
	}
	return notes
}
