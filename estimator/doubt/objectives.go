package doubt

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/result"
)

// Convolution is what cuDNN may take beside the tensors: the stand-in device's cuDNN works without a workspace,
// and a card's is chosen by a heuristic and taken from PyTorch's allocator while a convolution runs. cuDNN 7 took
// gigabytes for single layers (pytorch issues 22741 and 26112); of a current release a VAE's working memory was
// measured linear in the pixels, without a step (InvokeAI pull request 9305). The bound is a layer's input and output
// once more, in another layout, where the autoencoder's first level is the peak: two tensors beside five and the
// weights.
var Convolution = Doubt{"convolution-workspace", memory.Doubt{Above: 0.20},
	"cuDNN chooses a workspace for each convolution, which no trace shows; none of these scripts was measured on a " +
		"card"}

// EmbeddingStates is that embeddings have states of eight bits under the Trainer: an optimizer that it makes from
// its name is told to keep theirs, and a tied head's, in float32; one that a script hands over is not, and the traced
// steps with states of eight bits ran in a loop without the Trainer. Sources: transformers/trainer.py
// (Trainer.create_optimizer), 4.57.6 and 5.23.0; bitsandbytes/optim/optimizer.py (GlobalOptimManager, check_overrides,
// get_config), 0.50.2.
func EmbeddingStates(more, alive int64) Doubt {
	return Doubt{"embedding-states", memory.Doubt{Above: float64(more) / float64(alive)},
		fmt.Sprintf("an 8-bit optimizer that the Trainer makes from its name keeps the states of embeddings in "+
			"float32, which takes %s more; one that a script makes does not", result.Bytes(more))}
}

// Of 322 traced runs of trl's trainers the replay reserves 4.0 % less to 7.4 % more than was traced, and allocates 0.5
// % less to 1.0 % more. A run of another family or switch may differ more: of 75 kept since, without quantised bases,
// one (a TinyLlama with adapters) reserves 9 % less, and one of two layers with a vocabulary of 5,000 reserves 45 %
// more.
var Objective = Doubt{"objective", memory.Doubt{Below: 0.08, Above: 0.05},
	"trl's trainers were replayed from their source; 322 traced runs reserve 7 % less to 4 % more than their replay"}

// Of 41 traced runs with a base in nf4 or int8 the replay allocates 0.6 % less to 0.9 % more, and 38 reserve within 6 %
// of it. The others are of trl 0.26, whose trainers prepare the base: DPO of a Llama with a vocabulary of 128,256
// reserves 22 % less, twice, and DPO of Qwen3 in pure bfloat16 17 % more. from_pretrained warms the allocator up with a
// block of half the model's size and quantises weight by weight within it, and the replay moves module by module: what
// is left of either is found again by other tensors.
var QuantisedTrainer = Doubt{"quantised-base", memory.Doubt{Below: 0.22, Above: 0.18},
	"of 41 traced runs of trl's trainers on a base in nf4 or int8 three reserve 22 % less and 17 % more than their replay, " +
		"which loads the base in another order than transformers does"}

// Of the traced ranks of GRPO under ZeRO and FSDP (go run ./estimator/accuracy -kinds) the replay reserves 30 % less to
// 9 % more: the cache that grows token by token leaves other holes in memory that gathered weights come and go in.
var DealtGeneration = Doubt{"dealt-generation", memory.Doubt{Below: 0.10, Above: 0.45},
	"how a growing key/value cache fragments memory beside weights that are gathered and let go of is not replayed"}

// In four traced runs generation holds 0.4 to 1.4 % more than is replayed of it; none had its peak there, and none
// wrote more than 96 tokens.
var Generation = Doubt{"generation", memory.Doubt{Below: 0.05, Above: 0.10},
	"the peak is in generation, of which the pass of the prompts and the last token are replayed; no traced run " +
		"had its peak there"}

// Of 24 traced runs of sentence-transformers' trainer the replay allocates 0.03 % less to 0.13 % more, and reserves up
// to 1 % more. All ran without padding and on one stack.
var Contrastive = Doubt{"objective", memory.Doubt{Below: 0.05, Above: 0.05},
	"sentence-transformers' trainer was replayed from its source, and few of its runs were traced"}

// Of the traced runs of diffusers' scripts, accuracy -kinds prints how far each is off. None ran on a card, of whose
// kernels a script's other launches are not known.
var Diffusion = Doubt{"objective", memory.Doubt{Below: 0.05, Above: 0.05},
	"diffusers' scripts were replayed from their source, and few of their runs were traced"}

// LikeLiger allows for what trl's chunked loss holds beside Liger's. Of 32 jobs on one GPU, eight models of 0.6 to
// 7 billion parameters, micro-batches of 1 and 8 × 1,024 tokens, with adapters and without, the second is replayed
// with 1.1 % less to 0.03 % more allocated bytes than the first, and reserves 1.2 % less to 12.6 % more
// (go test ./service -run LigersLoss -v).
var LikeLiger = Doubt{"sft-loss", memory.Doubt{Below: 0.12, Above: 0.015},
	"trl's loss without logits (chunked_nll) is replayed as Liger's on several GPUs: of 32 jobs " +
		"on one GPU the two are within 1.1 % in allocated and 13 % in reserved bytes"}
