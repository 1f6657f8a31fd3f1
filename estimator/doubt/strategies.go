package doubt

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/memory"
)

// FullestExpert is how many times its share of the rows an expert gets whose load is the largest that was published of
// trained models. Wang et al. (arXiv 2408.15664, table 2) measured of the fullest expert of a layer, as a mean over
// layers, 4 % above its share with the bias that torchtitan has (load_balance_coeff, torchtitan/models/moe/moe.py,
// 0.2.0), and 52 and 72 % with an auxiliary loss, in models of 3 and 1 billion parameters. A GPU with several experts
// is no fuller than the fullest of them. Nothing in torchtitan bounds the rows: experts have no capacity.
const FullestExpert = 1.72

// Routing is about how many rows come to a GPU's experts, which is data. Replayed is an even division, and the
// fullest GPU gets no less. above is what is alive at the peak where it gets as many as fullestExpert says, beside what
// is alive where they are divided evenly.
func Routing(above float64) Doubt {
	return Doubt{"routing", memory.Doubt{Below: Sharded.Below, Above: Sharded.Above + above},
		fmt.Sprintf("rows are taken evenly divided among the experts; a GPU whose experts get %.2f times their share, as "+
			"the fullest of published models that were trained with a balancing loss (with torchtitan's bias 1.04 times), "+
			"has %.1f %% more alive at its peak; nothing bounds the rows, and in the first steps of a new router they may "+
			"be more", FullestExpert, 100*above)}
}

// Megatron is of what was written from sources alone. Published runs allocate up to 15 % more than is replayed,
// most of them 1 to 5 % (NVIDIA's ask cuBLAS for the larger workspaces of deterministic products), and those of May
// 2021 reserve up to 24 % more.
var Megatron = Doubt{"megatron", memory.Doubt{Below: 0.06, Above: 0.25},
	"Megatron-LM's layers, pipeline and optimizer were replayed from their sources and not traced; 55 published runs " +
		"allocate up to 15 % more than is replayed, and reserve up to 24 % more"}
