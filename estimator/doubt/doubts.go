package doubt

import "github.com/vramplan/vramplan/estimator/memory"

// Doubt is one reason why a real run may differ from the replay, and how far.
type Doubt struct {
	// Source names it in an answer.
	Source string
	memory.Doubt
	// How says what its width was read off.
	How string
}

// The reasons. Their widths are read off what is named in how, the published runs among it, which therefore do not test
// them; `go run ./estimator/accuracy -fit` prints, for the published runs on one GPU, what each would have to be.
var (
	// Order is always there. A larger one hides nothing: the described families replay to the byte, and what is
	// left is other frees between the steps.
	Order = Doubt{"allocation-order", memory.Doubt{Below: 0.015, Above: 0.015},
		"logging, data loading and other small allocations between the steps move freed blocks"}
	// Of twelve traced runs of nanoGPT, GPT-2 and Llama, reserved bytes differ by -3.4 to +4.1 % from the replay, the
	// smallest limit by up to 9 %, allocated bytes by up to 1.1 %.
	Compiled = Doubt{"compile", memory.Doubt{Below: 0.05, Above: 0.05},
		"inductor chooses what it fuses and recomputes; twelve traced runs differ by up to 4.1 % in reserved bytes"}
	// CompiledEvaluation: of fourteen traced jobs whose peak is in the evaluation, all of less than a GiB
	// (TestCompiledEvaluationIsNearTraces), one reserved 37 % more than its replay, and one 4 % less.
	CompiledEvaluation = Doubt{"compiled-evaluation", memory.Doubt{Below: 0.08, Above: 0.38},
		"an evaluation under torch.compile is another graph, which keeps nothing; what of it is written in place is not " +
			"told, and 14 traced jobs reserved from 4 % less to 37 % more than their replay"}
	// Of twelve traced steps of torchtune's layers with adapters or in float32 the replay is from 1.1 % below to 9.0 %
	// above the trace in allocated bytes, and from 14.1 % below to 5.9 % above in reserved ones (TestTorchtune).
	UncompiledLayers = Doubt{"uncompiled-layers", memory.Doubt{Below: 0.09, Above: 0.17},
		"torchtune compiles layers that were replayed as they run uncompiled; twelve traced steps allocate up to 8 % " +
			"less, and reserve up to 16 % more"}
	Versions = Doubt{"versions", memory.Doubt{Below: 0.06, Above: 0.11},
		"no trace has shown the family or the recipe with these releases; 26 published runs of older releases read 1 " +
			"% less to 11 % more"}
	// Of eighteen traced steps of two small Qwen3-Next on transformers 4.57 the replay is 0 to 46 % above the trace,
	// the most in evaluations and with checkpoints.
	DeltaRule = Doubt{"delta-rule", memory.Doubt{Below: 0.32, Above: 0.04},
		"transformers before 5.17 computes gated delta nets by a loop, and 5.17's rule is replayed: eighteen traced " +
			"steps of 4.57 allocate up to 31 % less, those with adapters the same"}
	Modules = Doubt{"framework-modules", memory.Doubt{Below: 0.06, Above: 0.10},
		"the framework writes its models itself; litgpt's class is replayed for models like Llama, of others' what " +
			"transformers writes"}
	Packed = Doubt{"gptq", memory.Doubt{Below: 0.06, Above: 0.06},
		"GPTQ's kernels were replayed from their source; 18 published runs allocate what was replayed, or " +
			"up to 2.6 % less"}
	// Of twelve published runs with Liger's fused-linear loss and other fused kernels, what the card shows beside a
	// usual context is from 2.7 % less to 2.0 % more than is reserved in the replay.
	Kernels = Doubt{"kernels", memory.Doubt{Below: 0.06, Above: 0.03},
		"of the fused kernels only Liger's RMSNorm, rotary positions and SwiGLU were traced; twelve published runs " +
			"with such kernels and no logits read from 2.7 % less to 2.0 % more from the driver"}
	// Of 25 such runs whose loss is one kernel over the logits, the highest asks for 26 %. They allocate what is
	// replayed; with LoRA under bf16 autocast they reserve 1,232 MiB more for 16,384 tokens, twice and four times that
	// for twice and four times as many: about one more block as large as the logits in float32. Which allocation finds
	// none free is not known.
	FusedLoss = Doubt{"fused-loss", memory.Doubt{Below: 0.06, Above: 0.26},
		"25 published runs with fused kernels and a loss that is one of them reserve up to 26 % more than is " +
			"replayed, though they allocate the same"}
	// Some fifty traced runs of FSDP2 over a process group that does nothing, in which three streams allocate as on a
	// real one, are equal to the byte, and nine of FSDP1 in allocated bytes. On real cards collectives run beside the
	// computation, which changes no allocation of FSDP2, and NCCL registers what it sends.
	Sharded = Doubt{"sharding", memory.Doubt{Below: 0.03, Above: 0.06},
		"FSDP was traced with a process group that sends nothing; scripts differ in what they wrap as one group"}
	// A traced rank of ten Mistral layers in a plain loop, checkpointed, computed in bf16 and summed in float32,
	// allocates 8.4 % more than is replayed; another in the Trainer, with adapters and without checkpoints, 2.4 % more,
	// and reserves 7.8 % more. Why is not known.
	Flat = Doubt{"flat-tensors", memory.Doubt{Below: 0.03, Above: 0.10},
		"of FSDP1 with checkpoints in a plain loop, and with adapters and without checkpoints, traced ranks hold up to " +
			"9 % more than is replayed"}
	// Of nine ranks traced on transformers 5.23, which deals the embedding out, too, a replay with both whole allocates
	// 8.9 to 22.6 % more than the trace, and reserves from 11.5 % less to 38.9 % more.
	VocabularyPlan = Doubt{"shared-vocabulary", memory.Doubt{Below: 0.29, Above: 0.14},
		"the tp_plan of transformers 5.0 to 5.20 deals the head out, which is replayed whole: nine traced ranks of 5.23, which deal " +
			"the embedding out, too, allocate 8 to 18 % less than such a replay, and reserve from 28 % less to 13 % more"}
	// Transformers' Trainer is within 0.9 % of three traced ranks, and within 0.7 % of what 64 published runs of older
	// releases allocated on two and four cards; GPTQ without groups is 4 % less. Eight published runs of loops of their
	// own allocated 0.5 % more to 7.5 % less than is replayed, and reserved 8 % more to 12 % less.
	FlatAdapters = Doubt{"flat-adapters", memory.Doubt{Below: 0.12, Above: 0.08},
		"loops of their own differ in how they wrap and checkpoint layers with adapters under FSDP1: published runs " +
			"read from 8 % more to 12 % less than is replayed"}
	// Three published runs of a loop of its own, two of them with a base in nf4, which no stand-in runs: what they
	// reserved is from 11 % less to 22 % more than is replayed, the most with 70B parameters; of why nothing is known.
	OffloadedAdapters = Doubt{"offloaded-adapters", memory.Doubt{Below: 0.11, Above: 0.22},
		"three published runs with adapters and parts in the CPU's memory under FSDP1 reserved from 11 % less to 22 % " +
			"more than is replayed"}
	// Traced ranks of the engine and of transformers' Trainer are within half a percent in allocated bytes
	// (estimator/accuracy/testdata/ranks). Streams of a real card keep blocks longer, and releases of DeepSpeed differ.
	Zero = Doubt{"zero", memory.Doubt{Below: 0.03, Above: 0.08},
		"ZeRO was replayed as DeepSpeed 0.19.8 allocates, traced with an NCCL that sends nothing"}
	// On a card, gathered parameters stay until the stream that used them is through: nineteen published runs with
	// checkpointing read 4 to 36 % more reserved bytes.
	Zero3 = Doubt{"zero", memory.Doubt{Below: 0.03, Above: 0.36},
		"ZeRO-3 was replayed as DeepSpeed 0.19.8 allocates, traced with an NCCL that sends nothing; on cards, memory " +
			"of other streams is given back later, by up to 36 % in published runs"}
	// The whole gathered model: of 31 published runs of an 8B model on eight cards that were loaded before the
	// configuration was known, with 0.14, reserved bytes are up to 74 % above the replay with zero.Init.
	ZeroInit = Doubt{"zero-init", memory.Doubt{Above: 0.75},
		"a model that is loaded before DeepSpeed's configuration is known keeps its gathered weights until backward " +
			"in older releases; distributed.zero_init says whether it was"}
	// What goes to the CPU and when differs between releases: of DeepSpeed 0.14, nineteen published runs read 1.6 to 30
	// % more.
	Offloaded = Doubt{"offload", memory.Doubt{Below: 0.16, Above: 0.32},
		"releases of DeepSpeed differ in what an offloaded optimizer leaves on the GPU: nineteen published runs of " +
			"0.14 read 2 to 30 % more than is replayed of 0.19"}
	// Two models in two sources, so a guess at the spread more than a measurement: Above covers five of the seven
	// readings.
	Dimensions = Doubt{"dimensions", memory.Doubt{Below: 0.10, Above: 0.40},
		"numbers do not say how a module is written nor in which types its parts run; 7 published runs of models " +
			"known by their numbers read 10 to 79 % more"}
	// Of 13 traced runs of eight families without a description, the replay of the nearest block allocates 10.1 % less
	// to 2.6 % more, 1.5 % off at the median, and reserves 10.2 % less to 1.7 % more. The largest (xglm) only just lies
	// below Above.
	Generic = Doubt{"generic-family", memory.Doubt{Below: 0.10, Above: 0.10},
		"the layers were put together from the dimensions"}
	// Of the mixtures in TestContinuedIsNear, and of 64 layers with 1,024 small experts with and without adapters, the
	// reserved bytes of some layers, continued in a line, are 0.1 % below to 2.5 % above those of all layers. With
	// fewer experts in a layer, too, which only jobs with gradient accumulation and those whose layers all differ are
	// played with, up to 3 %.
	Continued = Doubt{"continued", memory.Doubt{Below: 0.03, Above: 0.03},
		"some of the layers were played, and what the allocator reserves was continued in a line to all of them"}
	// 50 configurations of transformers 5.23 are answered under a name that nobody knows. Of them 48 have at most 0.4 %
	// other parameters than were counted, hunyuan_v1_moe 11 % and jetmoe 16 % more; bitnet, which is refused since its
	// gate is in no key, had 24 % (model/testdata/transformers).
	Uncounted = Doubt{"unknown-family", memory.Doubt{Below: 0.10, Above: 0.25},
		"the model_type is not one of transformers, and nobody compared its parameters with its configuration; of 50 " +
			"that were, two have 11 to 16 % more"}
	// Six traced runs of Gemma 2, read without the bounds on its scores and logits, allocate 0.0 to 12.3 % more than
	// their replay; a wider vocabulary under a shorter model would show more.
	Unread = Doubt{"unread-keys", memory.Doubt{Below: 0.10, Above: 0.15},
		"the configuration has keys that are not modelled; six traced runs of Gemma 2 read without two such keys " +
			"allocate up to 12.3 % more"}
)

// tuningBytes is the buffer that Triton clears between two runs of a kernel that it tunes, as large as the largest
// cache. Source: triton/backends/nvidia/driver.py (get_empty_cache_for_benchmark), 3.9.
const tuningBytes = 256 << 20

// Tuning is that of kernels that are tuned in the first step of the first run on a machine, when more may be
// reserved for a moment than ever after: a traced job of 166 MiB took 322 then.
func Tuning(least int64) Doubt {
	return Doubt{"kernel-tuning", memory.Doubt{Below: Order.Below,
		Above: Order.Above + tuningBytes/float64(least)},
		"Triton takes 256 MiB for moments of the first step, while it tunes the kernels of flash-linear-attention"}
}

// TRLNamed is that of a Trainer's job that names a former trl: taken for SFTTrainer, which casts the embeddings
// and the head of a base in four bits, so many parameters, back to bfloat16. The Trainer leaves them in float32, and
// autocast copies what it uses. least is what is reserved at least.
func TRLNamed(tables, least int64) Doubt {
	const widths = 4 // of a float32 parameter, or 2 more in storage and 2 in the copy
	return Doubt{"trl-named", memory.Doubt{Below: Order.Below,
		Above: Order.Above + float64(widths*tables)/float64(least)},
		"the job names a release of trl in which SFTTrainer casts embeddings and head to bfloat16, which transformers' " +
			"Trainer does not; training.framework trl says that it runs, and without the release nothing is cast"}
}

// ClosureGradients is that Lightning's loop of one micro-step a step drops gradients between forward and backward, so
// that those of the step before, of so many bytes, are there beside all activations; the replay drops them after the
// step. A traced step under bf16-mixed took 129.7 MB, and 112.0 are replayed. Source:
// lightning/pytorch/loops/optimization/automatic.py (Closure.closure), 2.6.
func ClosureGradients(gradients, least int64) Doubt {
	return Doubt{"closure-gradients", memory.Doubt{Above: float64(gradients) / float64(least)},
		"Lightning drops the gradients of a step of one micro-step in the next one, between forward and backward, " +
			"which is not replayed; two micro-steps are"}
}

// SFTPictures is that of a model that reads pictures in SFTTrainer, which no trace has shown: for the accuracy in
// its log it copies the logits, of so many bytes, once more beside the least that is reserved.
// Source: trl/trainer/sft_trainer.py (compute_loss), 0.26.
func SFTPictures(logits float64, least int64) Doubt {
	return Doubt{"sft-pictures", memory.Doubt{Below: 0.03, Above: 0.03 + logits/float64(least)},
		"models that read pictures were traced in transformers' Trainer and not in SFTTrainer, which copies the logits once " +
			"more for the accuracy in its log"}
}

// Unsloth is that of unsloth, whose loss makes no logits whole, whose kernels for norms, MLPs and adapters keep less
// and whose checkpoints lie on the host: those of transformers and peft are replayed, and logits and loss are so many
// bytes of the least that is reserved. LLaMA-Factory's users measured 16 GiB for a LoRA of Llama 2 7B of 4 x 1024
// tokens with its kernels beside 17 without (its wiki, Performance comparison); unsloth's documentation has 6 GB for a
// QLoRA of 8B, at the least (Unsloth requirements).
// Sources: unsloth_zoo/loss_utils.py and fused_losses/cross_entropy_loss.py (chunks of the tokens), 2026.10.9;
// unsloth/kernels/fast_lora.py.
func Unsloth(logits, least int64) Doubt {
	const kernels = 0.15
	below := min(kernels+float64(logits)/float64(max(least, 1)), 0.9)
	return Doubt{"unsloth", memory.Doubt{Below: below, Above: Order.Above},
		"unsloth's own loss and kernels were not traced: those of transformers and peft are replayed, which keep all logits " +
			"and more of each layer"}
}

// Widest is what the doubts amount to together.
func Widest(list []Doubt) memory.Doubt {
	var all memory.Doubt
	for _, d := range list {
		all = all.Or(d.Doubt)
	}
	return all
}
