package mixtures

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// GraniteHybridFamily is Granite 4 of layers with attention alone: Granite with one matrix for gate and up, beside a
// mixture of experts where there is one, and no cache unless one is given. The layers with a state space are not
// described. Source: transformers/models/granitemoehybrid/modeling_granitemoehybrid.py,
// configuration_granitemoehybrid.py, 4.57.
var GraniteHybridFamily = arch.Family{ModelType: "granitemoehybrid", Keys: arch.CommonKeys, Build: buildGraniteHybrid,
	Defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "silu", "max_position_embeddings": 2048.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "attention_dropout": 0.0, "num_local_experts": 8.0,
		"num_experts_per_tok": 2.0, "shared_intermediate_size": 1024.0, "output_router_logits": false},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadBiased(c, a)
		a.HeadDim = 0 // head_dim is not read
		if a.Heads > 0 {
			a.HeadDim = a.Hidden / a.Heads
		}
		a.FFN = c.Integer("shared_intermediate_size", arch.MaxRows)
		a.UseCache, a.CachesInTrainingLater = false, a.UseCache
		if v, _ := c.Value("num_local_experts"); v != 0.0 {
			e := readGraniteExperts(c, &a)
			e.SharedFFN = a.FFN
			a.Own = e
		}
		attentionOnly(c, &a)
		position, _ := c.Value("position_embedding_type")
		a.Rotary = position == "rope"
		return a
	},
	Spelled: map[string]string{"intermediate_size": "shared_intermediate_size"},
	Numbers: func(p *arch.Preset, c map[string]any) {
		c["num_local_experts"], c["position_embedding_type"] = 0.0, p.Position
		c["layer_types"] = slices.Repeat([]any{"attention"}, int(p.Layers))
	}}

// attentionOnly refuses layers that are not attention. Without layer_types all are state spaces.
func attentionOnly(c *arch.Config, a *arch.Architecture) {
	kinds, _ := c.Value("layer_types")
	list, ok := kinds.([]any)
	if !ok || int64(len(list)) != a.Layers {
		c.Errs.Add(c.Pointer+"/layer_types", "unsupported", "layer_types is %s; modelled are %d layers of type %q",
			arch.Describe(kinds), a.Layers, "attention")
		return
	}
	for _, kind := range list {
		if kind != "attention" {
			c.Errs.Add(c.Pointer+"/layer_types", "unsupported", "a layer of type %s is not modelled; %q is",
				arch.Describe(kind), "attention")
			return
		}
	}
}

// viewsHeadsFirst is the hybrid Granite that lays queries, keys and values out by heads one after the other, and
// hands its layers no positions.
var viewsHeadsFirst = release.Declare("views-heads-first", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "attention of the hybrid Granite in transformers 5.10 lays queries, keys and values out by heads as " +
		"it computes them; its layers are handed no positions",
	Source: "models/granitemoehybrid/modeling_granitemoehybrid.py (GraniteMoeHybridAttention), " +
		"4.57.6 and 5.23.0",
	Shown: "traces of Granite 4",
})

func buildGraniteHybrid(b *arch.Builder) step.Network {
	with := blocks.LikeLlama()
	with.Declare, with.Project, with.MakeMask = declareGraniteHybrid, (*blocks.Decoder).ProjectFirst, graniteHybridMask
	if b.A.Software.Has(viewsHeadsFirst) {
		with.Project, with.Unplaced = (*blocks.Decoder).ProjectEach, true
	}
	with.FeedForward = chunkedMLP
	with.ScaleEmbedding, with.ScaleBranches, with.Unturned = blocks.ScaledByModel, true, !b.A.Rotary
	with.ScaleLogits = scaledFloatLogits
	if b.A.Software.Has(blocks.LeavesLogits) {
		with.ScaleLogits = (*step.Tape).ScaleLogits
	}
	return blocks.BuildDecoder(b, with)
}

// declareGraniteHybrid lists the modules of GraniteMoeHybridDecoderLayer, which makes its attention last.
func declareGraniteHybrid(b *arch.Builder, l *blocks.DecoderLayer) {
	a, d := b.A, b.A.Hidden
	if arch.ExpertsOf(a) != nil {
		declareMixed(b, l)
		blocks.DeclareProjections(b, l)
		return
	}
	l.InputNorm, l.PostAttentionNorm = b.Norm("input_layernorm", d, false), b.Norm("post_attention_layernorm", d, false)
	l.GateUp, l.Down = b.Linear("shared_mlp.input_linear", d, 2*a.FFN, false),
		b.Linear("shared_mlp.output_linear", a.FFN, d, false)
	blocks.DeclareProjections(b, l)
}

// graniteHybridMask is _update_causal_mask and, after it, the look at the mask for state spaces.
func graniteHybridMask(t *step.Tape, _ int64, d step.DType) *step.T {
	if t.Recipe.Software.Has(blocks.MasksByLibrary) {
		mask := blocks.CausalMask(t, 0, d)
		ones := t.Input(t.Shape.N(), step.Bool)
		t.Drop(t.Input(1, step.Bool))
		t.Drop(ones)
		return mask
	}
	mask := blocks.TriangularMask(t, d)
	t.Drop(t.Input(1, step.Bool))
	ones := t.Input(t.Shape.N(), step.Bool)
	t.Drop(t.Input(1, step.Bool))
	t.Drop(ones)
	return mask
}

// chunkedMLP is the MLP of a layer with one projection for gate and up.
func chunkedMLP(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, x step.T) step.T {
	return blocks.Chunked(t, m.A.Activation, l.GateUp, l.Down, x)
}
