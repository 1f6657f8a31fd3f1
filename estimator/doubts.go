package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model/hybrids"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// doubt is one reason why a real run may differ from the replay, and how far.
type doubt struct {
	source string
	memory.Doubt
	how string
}

// The reasons. Their widths are read off what is named in how, the published runs among it, which therefore do not test
// them; `go run ./estimator/accuracy -fit` prints, for the published runs on one GPU, what each would have to be.
var (
	// orderDoubt is always there. A larger one hides nothing: the described families replay to the byte, and what is
	// left is other frees between the steps.
	orderDoubt = doubt{"allocation-order", memory.Doubt{Below: 0.015, Above: 0.015},
		"logging, data loading and other small allocations between the steps move freed blocks"}
	// Of twelve traced runs of nanoGPT, GPT-2 and Llama, reserved bytes differ by -3.4 to +4.1 % from the replay, the
	// smallest limit by up to 9 %, allocated bytes by up to 1.1 %.
	compiledDoubt = doubt{"compile", memory.Doubt{Below: 0.05, Above: 0.05},
		"inductor chooses what it fuses and recomputes; twelve traced runs differ by up to 4.1 % in reserved bytes"}
	// compiledEvaluationDoubt: of fourteen traced jobs whose peak is in the evaluation, all of less than a GiB
	// (TestCompiledEvaluationIsNearTraces), one reserved 37 % more than its replay, and one 4 % less.
	compiledEvaluationDoubt = doubt{"compiled-evaluation", memory.Doubt{Below: 0.08, Above: 0.38},
		"an evaluation under torch.compile is another graph, which keeps nothing; what of it is written in place is not " +
			"told, and 14 traced jobs reserved from 4 % less to 37 % more than their replay"}
	// Of twelve traced steps of torchtune's layers with adapters or in float32 the replay is from 1.1 % below to 9.0 %
	// above the trace in allocated bytes, and from 14.1 % below to 5.9 % above in reserved ones (TestTorchtune).
	uncompiledLayersDoubt = doubt{"uncompiled-layers", memory.Doubt{Below: 0.09, Above: 0.17},
		"torchtune compiles layers that were replayed as they run uncompiled; twelve traced steps allocate up to 8 % " +
			"less, and reserve up to 16 % more"}
	versionsDoubt = doubt{"versions", memory.Doubt{Below: 0.06, Above: 0.11},
		"no trace has shown the family or the recipe with these releases; 26 published runs of older releases read 1 " +
			"% less to 11 % more"}
	// Of eighteen traced steps of two small Qwen3-Next on transformers 4.57 the replay is 0 to 46 % above the trace,
	// the most in evaluations and with checkpoints.
	deltaRuleDoubt = doubt{"delta-rule", memory.Doubt{Below: 0.32, Above: 0.04},
		"transformers before 5.17 computes gated delta nets by a loop, and 5.17's rule is replayed: eighteen traced " +
			"steps of 4.57 allocate up to 31 % less, those with adapters the same"}
	modulesDoubt = doubt{"framework-modules", memory.Doubt{Below: 0.06, Above: 0.10},
		"the framework writes its models itself; litgpt's class is replayed for models like Llama, of others' what " +
			"transformers writes"}
	packedDoubt = doubt{"gptq", memory.Doubt{Below: 0.06, Above: 0.06},
		"GPTQ's kernels were replayed from their source; 18 published runs allocate what was replayed, or " +
			"up to 2.6 % less"}
	// Of twelve published runs with Liger's fused-linear loss and other fused kernels, what the card shows beside a
	// usual context is from 2.7 % less to 2.0 % more than is reserved in the replay.
	kernelsDoubt = doubt{"kernels", memory.Doubt{Below: 0.06, Above: 0.03},
		"of the fused kernels only Liger's RMSNorm, rotary positions and SwiGLU were traced; twelve published runs " +
			"with such kernels and no logits read from 2.7 % less to 2.0 % more from the driver"}
	// Of 25 such runs whose loss is one kernel over the logits, the highest asks for 26 %. They allocate what is
	// replayed; with LoRA under bf16 autocast they reserve 1,232 MiB more for 16,384 tokens, twice and four times that
	// for twice and four times as many: about one more block as large as the logits in float32. Which allocation finds
	// none free is not known.
	fusedLossDoubt = doubt{"fused-loss", memory.Doubt{Below: 0.06, Above: 0.26},
		"25 published runs with fused kernels and a loss that is one of them reserve up to 26 % more than is " +
			"replayed, though they allocate the same"}
	// Some fifty traced runs of FSDP2 over a process group that does nothing, in which three streams allocate as on a
	// real one, are equal to the byte, and nine of FSDP1 in allocated bytes. On real cards collectives run beside the
	// computation, which changes no allocation of FSDP2, and NCCL registers what it sends.
	shardedDoubt = doubt{"sharding", memory.Doubt{Below: 0.03, Above: 0.06},
		"FSDP was traced with a process group that sends nothing; scripts differ in what they wrap as one group"}
	// A traced rank of ten Mistral layers in a plain loop, checkpointed, computed in bf16 and summed in float32,
	// allocates 8.4 % more than is replayed; another in the Trainer, with adapters and without checkpoints, 2.4 % more,
	// and reserves 7.8 % more. Why is not known.
	flatDoubt = doubt{"flat-tensors", memory.Doubt{Below: 0.03, Above: 0.10},
		"of FSDP1 with checkpoints in a plain loop, and with adapters and without checkpoints, traced ranks hold up to " +
			"9 % more than is replayed"}
	// Of nine ranks traced on transformers 5.23 the replay, with the embedding and the head whole, allocates 8.9 to 22.6 % more
	// than the trace, and reserves from 11.5 % less to 38.9 % more.
	vocabularyPlanDoubt = doubt{"shared-vocabulary", memory.Doubt{Below: 0.29, Above: 0.14},
		"the tp_plan of transformers 5 deals the embedding and the head out, which are replayed whole: nine traced ranks allocate " +
			"8 to 18 % less, and reserve from 28 % less to 13 % more"}
	// Transformers' Trainer is within 0.9 % of three traced ranks, and within 0.7 % of what 64 published runs of older
	// releases allocated on two and four cards; GPTQ without groups is 4 % less. Eight published runs of loops of their
	// own allocated 0.5 % more to 7.5 % less than is replayed, and reserved 8 % more to 12 % less.
	flatAdaptersDoubt = doubt{"flat-adapters", memory.Doubt{Below: 0.12, Above: 0.08},
		"loops of their own differ in how they wrap and checkpoint layers with adapters under FSDP1: published runs " +
			"read from 8 % more to 12 % less than is replayed"}
	// Three published runs of a loop of its own, two of them with a base in nf4, which no stand-in runs: what they
	// reserved is from 11 % less to 22 % more than is replayed, the most with 70B parameters; of why nothing is known.
	offloadedAdaptersDoubt = doubt{"offloaded-adapters", memory.Doubt{Below: 0.11, Above: 0.22},
		"three published runs with adapters and parts in the CPU's memory under FSDP1 reserved from 11 % less to 22 % " +
			"more than is replayed"}
	// Traced ranks of the engine and of transformers' Trainer are within half a percent in allocated bytes
	// (estimator/accuracy/testdata/ranks). Streams of a real card keep blocks longer, and releases of DeepSpeed differ.
	zeroDoubt = doubt{"zero", memory.Doubt{Below: 0.03, Above: 0.08},
		"ZeRO was replayed as DeepSpeed 0.19.8 allocates, traced with an NCCL that sends nothing"}
	// On a card, gathered parameters stay until the stream that used them is through: nineteen published runs with
	// checkpointing read 4 to 36 % more reserved bytes.
	zero3Doubt = doubt{"zero", memory.Doubt{Below: 0.03, Above: 0.36},
		"ZeRO-3 was replayed as DeepSpeed 0.19.8 allocates, traced with an NCCL that sends nothing; on cards, memory " +
			"of other streams is given back later, by up to 36 % in published runs"}
	// The whole gathered model: of 31 published runs of an 8B model on eight cards that were loaded before the
	// configuration was known, with 0.14, reserved bytes are up to 74 % above the replay with zero.Init.
	zeroInitDoubt = doubt{"zero-init", memory.Doubt{Above: 0.75},
		"a model that is loaded before DeepSpeed's configuration is known keeps its gathered weights until backward " +
			"in older releases; distributed.zero_init says whether it was"}
	// What goes to the CPU and when differs between releases: of DeepSpeed 0.14, nineteen published runs read 1.6 to 30
	// % more.
	offloadedDoubt = doubt{"offload", memory.Doubt{Below: 0.16, Above: 0.32},
		"releases of DeepSpeed differ in what an offloaded optimizer leaves on the GPU: nineteen published runs of " +
			"0.14 read 2 to 30 % more than is replayed of 0.19"}
	// Two models in two sources, so a guess at the spread more than a measurement: Above covers five of the seven
	// readings.
	dimensionsDoubt = doubt{"dimensions", memory.Doubt{Below: 0.10, Above: 0.40},
		"numbers do not say how a module is written nor in which types its parts run; 7 published runs of models " +
			"known by their numbers read 10 to 79 % more"}
	// Of 13 traced runs of eight families without a description, the replay of the nearest block allocates 10.1 % less
	// to 2.6 % more, 1.5 % off at the median, and reserves 10.2 % less to 1.7 % more. The largest (xglm) only just lies
	// below Above.
	genericDoubt = doubt{"generic-family", memory.Doubt{Below: 0.10, Above: 0.10},
		"the layers were put together from the dimensions"}
	// Of the mixtures in TestContinuedIsNear, and of 64 layers with 1,024 small experts with and without adapters, the
	// reserved bytes of some layers, continued in a line, are 0.1 % below to 2.5 % above those of all layers. With
	// fewer experts in a layer, too, which only jobs with gradient accumulation and those whose layers all differ are
	// played with, up to 3 %.
	continuedDoubt = doubt{"continued", memory.Doubt{Below: 0.03, Above: 0.03},
		"some of the layers were played, and what the allocator reserves was continued in a line to all of them"}
	// 50 configurations of transformers 5.23 are answered under a name that nobody knows. Of them 48 have at most 0.4 %
	// other parameters than were counted, hunyuan_v1_moe 11 % and jetmoe 16 % more; bitnet, which is refused since its
	// gate is in no key, had 24 % (model/testdata/transformers).
	uncountedDoubt = doubt{"unknown-family", memory.Doubt{Below: 0.10, Above: 0.25},
		"the model_type is not one of transformers, and nobody compared its parameters with its configuration; of 50 " +
			"that were, two have 11 to 16 % more"}
	// Six traced runs of Gemma 2, read without the bounds on its scores and logits, allocate 0.0 to 12.3 % more than
	// their replay; a wider vocabulary under a shorter model would show more.
	unreadDoubt = doubt{"unread-keys", memory.Doubt{Below: 0.10, Above: 0.15},
		"the configuration has keys that are not modelled; six traced runs of Gemma 2 read without two such keys " +
			"allocate up to 12.3 % more"}
)

// tuningBytes is the buffer that Triton clears between two runs of a kernel that it tunes, as large as the largest
// cache. Source: triton/backends/nvidia/driver.py (get_empty_cache_for_benchmark), 3.9.
const tuningBytes = 256 << 20

// tuningDoubt is that of kernels that are tuned in the first step of the first run on a machine, when more may be
// reserved for a moment than ever after: a traced job of 166 MiB took 322 then.
func tuningDoubt(least int64) doubt {
	return doubt{"kernel-tuning", memory.Doubt{Below: orderDoubt.Below,
		Above: orderDoubt.Above + tuningBytes/float64(least)},
		"Triton takes 256 MiB for moments of the first step, while it tunes the kernels of flash-linear-attention"}
}

// trlNamedDoubt is that of a Trainer's job that names a former trl: taken for SFTTrainer, which casts the embeddings
// and the head of a base in four bits back to bfloat16. The Trainer leaves them in float32, and autocast copies what
// it uses.
func (r *resolved) trlNamedDoubt(run *run) doubt {
	const widths = 4 // of a float32 parameter, or 2 more in storage and 2 in the copy
	tables := r.arch.Vocabulary * r.arch.Hidden
	if !r.arch.Tied {
		tables *= 2
	}
	return doubt{"trl-named", memory.Doubt{Below: orderDoubt.Below,
		Above: orderDoubt.Above + float64(widths*tables)/float64(run.least())},
		"the job names a release of trl in which SFTTrainer casts embeddings and head to bfloat16, which transformers' " +
			"Trainer does not; training.framework trl says that it runs, and without the release nothing is cast"}
}

// solvesDeltaRule is the gated delta rule that solves a triangular system for each chunk of tokens.
var solvesDeltaRule = release.Declare("solves-delta-rule", release.Change{
	Library: "transformers", After: "5.16", From: "5.17",
	What: "gated delta nets (Qwen3.5, Qwen3-Next) without the package fla solve a triangular system for each " +
		"chunk of tokens since transformers 5.17; before, a loop went through its rows, which is not replayed",
	Source: "models/qwen3_next/modeling_qwen3_next.py (torch_chunk_gated_delta_rule), 4.57.6, 5.0.0, 5.10.0, " +
		"5.16.0, 5.17.0 and 5.23.0",
	Shown: "traces of Qwen3.5 and Qwen3-Next with 5.23, and of Qwen3-Next with 4.57",
})

// doubts are the reasons that apply to a run of the job.
func (r *resolved) doubts(run *run) []doubt {
	list := []doubt{orderDoubt}
	add := func(applies bool, d doubt) {
		if applies {
			list = append(list, d)
		}
	}
	add(r.provenOn == "" || r.untracedAdapters(), versionsDoubt)
	add(hybrids.DeltaChunks(&r.arch, 1) > 0 && !r.arch.Software.Has(solvesDeltaRule), deltaRuleDoubt)
	if run.applied.Kernels.DeltaRule {
		list = append(list, tuningDoubt(run.least()))
	}
	add(r.recipe.Compile || r.recipe.CompileBlocks, compiledDoubt)
	add(r.recipe.CheckpointsAround && !r.recipe.CompileBlocks, uncompiledLayersDoubt)
	add(r.recipe.Compile && r.evaluation != nil, compiledEvaluationDoubt)
	add(r.ownModules, modulesDoubt)
	add(r.packedByGPTQ(), packedDoubt)
	if l := r.arch.LoRA; l != nil && l.Returns && r.by.runsTRL != yes {
		list = append(list, r.trlNamedDoubt(run))
	}
	list = append(list, r.recordedDoubts()...)
	if r.parallel != nil {
		list = append(list, r.parallel.doubts()...)
	}
	if r.exchanges {
		list = append(list, routingDoubt(max(float64(run.uneven)/float64(run.ledger.Peak.Bytes)-1, 0)))
	}
	add(r.kernelNames > 0, kernelsDoubt)
	add(r.kernelNames > 0 && r.recipe.Loss.Kind == step.LossFused, fusedLossDoubt)
	add(r.likeLiger, likeLigerDoubt)
	add(r.arch.Generic, genericDoubt)
	add(r.arch.Uncounted, uncountedDoubt)
	add(len(r.arch.Unread) > 0, unreadDoubt)
	add(r.byNumbers, dimensionsDoubt)
	add(run.continued, continuedDoubt)
	list = append(list, r.objectiveDoubts(run)...)
	if r.arch.Sees() && r.by.runsTRL == yes {
		list = append(list, r.trlPicturesDoubt(run))
	}
	if d, applies := r.embeddingStates(run); applies {
		list = append(list, d)
	}
	if d, applies := r.unproven(); applies {
		list = append(list, d)
	}
	return list
}

// least is the least that the run reserves, which is known before it was played; never 0.
func (run *run) least() int64 { return max(run.base.Reserved, run.ledger.Peak.Bytes, 1) }

// trlPicturesDoubt is that of a model that reads pictures in SFTTrainer, which no trace has shown: for the accuracy in
// its log it copies the logits once more. Source: trl/trainer/sft_trainer.py (compute_loss), 0.26.
func (r *resolved) trlPicturesDoubt(run *run) doubt {
	const width = 4 // of a float32
	logits := float64(r.shape.N() * r.arch.Vocabulary * width)
	return doubt{"sft-pictures", memory.Doubt{Below: 0.03, Above: 0.03 + logits/float64(run.least())},
		"models that read pictures were traced in transformers' Trainer and not in SFTTrainer, which copies the logits once " +
			"more for the accuracy in its log"}
}

// widest is what the doubts amount to together.
func widest(list []doubt) memory.Doubt {
	var all memory.Doubt
	for _, d := range list {
		all = all.Or(d.Doubt)
	}
	return all
}

// explainDoubts says what each doubt comes to in bytes; the context's stands last.
func (r *resolved) explainDoubts(run *run) []DoubtSource {
	b, times := run.base, run.figures.Times
	out := r.measuredDoubt(run)
	for _, d := range r.doubts(run) {
		out = append(out, DoubtSource{Source: d.source, How: d.how,
			BelowBytes: int64(times.Below * d.Below * float64(b.Limit)),
			AboveBytes: int64(times.Above * d.Above * float64(b.Reserved))})
	}
	if r.copies > 0 {
		out = append(out, DoubtSource{Source: "nccl",
			How: fmt.Sprintf("NCCL's communicator was not measured; NVIDIA's planner assumes %s, and nothing "+
				"to %s is allowed for", Bytes(r.nccl.Bytes), Bytes(r.nccl.High)),
			BelowBytes: int64(times.Below * float64(r.nccl.Bytes-r.nccl.Low)),
			AboveBytes: int64(times.Above * float64(r.nccl.High-r.nccl.Bytes))})
	}
	c := r.cudaContext(run.recipe)
	how := fmt.Sprintf("the context took %s to %s in published runs", Bytes(c.Low), Bytes(c.High))
	if c == memory.ContextHopper {
		how = fmt.Sprintf("the context took 751 to %s on one H200; the spread is that of published runs of other cards",
			Bytes(c.Bytes))
	}
	return append(out, DoubtSource{Source: "cuda-context", How: how,
		BelowBytes: int64(times.Below * float64(c.Bytes-c.Low)),
		AboveBytes: int64(times.Above * float64(c.High-c.Bytes))})
}

// answerFor begins an answer with what the job asks of it: the releases, and how sure its bounds shall be.
func answerFor(in *Input, errs *invalid.List) *resolved {
	r := &resolved{
		work: work{byNumbers: in.Job.Model.Dimensions != nil},
		software: software{held: in.held, given: in.Job.Training.Versions,
			stack: release.Assumed(in.Job.Training.Versions), ownLoop: in.OwnLoop},
		card: card{confidence: in.Job.Confidence, reserve: in.Job.ReserveBytes},
	}
	if r.confidence == 0 {
		r.confidence = defaultConfidence
	}
	if !(r.confidence >= 0.5 && r.confidence <= 0.999) {
		errs.Add("/confidence", "out_of_range", "confidence is %g; it is from 0.5 to 0.999", r.confidence)
	}
	if r.reserve < 0 {
		errs.Add("/reserve_bytes", "out_of_range", "reserve_bytes is %d; it is 0 or more", r.reserve)
	}
	return r
}
