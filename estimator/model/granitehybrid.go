package model

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
)

// Granite 4 of layers with attention alone: Granite with one matrix for gate and up, beside a mixture of experts where
// there is one, and no cache unless one is given. The layers with a state space are not described. Source:
// transformers/models/granitemoehybrid/modeling_granitemoehybrid.py, configuration_granitemoehybrid.py, 4.57.
var graniteHybridFamily = family{modelType: "granitemoehybrid", keys: commonKeys, build: buildGraniteHybrid,
	defaults: map[string]any{
		"vocab_size": 32000.0, "hidden_size": 4096.0, "intermediate_size": 11008.0, "num_hidden_layers": 32.0,
		"num_attention_heads": 32.0, "hidden_act": "silu", "max_position_embeddings": 2048.0, "use_cache": true,
		"tie_word_embeddings": false, "attention_bias": false, "attention_dropout": 0.0, "num_local_experts": 8.0,
		"num_experts_per_tok": 2.0, "shared_intermediate_size": 1024.0, "output_router_logits": false},
	read: func(c *config, a *Architecture) {
		c.biased(a)
		a.HeadDim = 0 // head_dim is not read
		if a.Heads > 0 {
			a.HeadDim = a.Hidden / a.Heads
		}
		a.FFN = c.integer("shared_intermediate_size", maxRows)
		a.UseCache, a.CachesInTrainingLater = false, a.UseCache
		if v, _ := c.value("num_local_experts"); v != 0.0 {
			e := c.graniteExperts(a)
			e.SharedFFN = a.FFN
			a.own = e
		}
		c.attentionOnly(a)
		position, _ := c.value("position_embedding_type")
		a.Rotary = position == "rope"
	},
	spelled: map[string]string{"intermediate_size": "shared_intermediate_size"},
	numbers: func(p *Preset, c map[string]any) {
		c["num_local_experts"], c["position_embedding_type"] = 0.0, p.Position
		c["layer_types"] = slices.Repeat([]any{"attention"}, int(p.Layers))
	}}

// attentionOnly refuses layers that are not attention. Without layer_types all are state spaces.
func (c *config) attentionOnly(a *Architecture) {
	kinds, _ := c.value("layer_types")
	list, ok := kinds.([]any)
	if !ok || int64(len(list)) != a.Layers {
		c.errs.Add(c.pointer+"/layer_types", "unsupported", "layer_types is %s; modelled are %d layers of type %q",
			describe(kinds), a.Layers, "attention")
		return
	}
	for _, kind := range list {
		if kind != "attention" {
			c.errs.Add(c.pointer+"/layer_types", "unsupported", "a layer of type %s is not modelled; %q is",
				describe(kind), "attention")
			return
		}
	}
}

func buildGraniteHybrid(b *builder) step.Network {
	with := likeLlama()
	with.declare, with.project, with.makeMask = declareGraniteHybrid, (*decoder).projectFirst, graniteHybridMask
	if b.a.Software.ViewsHeadsFirst {
		with.project, with.unplaced = (*decoder).projectEach, true
	}
	with.feedForward, with.keepsProbabilities = (*decoder).chunkedMLP, true
	with.scaleEmbedding, with.scaleBranches, with.unturned = scaledByModel, true, !b.a.Rotary
	with.scaleLogits = scaledFloatLogits
	if b.a.Software.LeavesLogits {
		with.scaleLogits = (*step.Tape).ScaleLogits
	}
	return b.decoder(with)
}

// declareGraniteHybrid lists the modules of GraniteMoeHybridDecoderLayer, which makes its attention last.
func declareGraniteHybrid(b *builder, l *decoderLayer) {
	a, d := b.a, b.a.Hidden
	if expertsOf(a) != nil {
		declareMixed(b, l)
		b.projections(l)
		return
	}
	l.inputNorm, l.postAttentionNorm = b.norm("input_layernorm", d, false), b.norm("post_attention_layernorm", d, false)
	l.gateUp, l.down = b.linear("shared_mlp.input_linear", d, 2*a.FFN, false),
		b.linear("shared_mlp.output_linear", a.FFN, d, false)
	b.projections(l)
}

// graniteHybridMask is _update_causal_mask and, after it, the look at the mask for state spaces.
func graniteHybridMask(t *step.Tape, _ int64, d step.DType) *step.T {
	if t.Recipe.Software.MasksByLibrary {
		mask := causalMask(t, 0, d)
		ones := t.Input(t.Shape.N(), step.Bool)
		t.Drop(t.Input(1, step.Bool))
		t.Drop(ones)
		return mask
	}
	mask := triangularMask(t, d)
	t.Drop(t.Input(1, step.Bool))
	ones := t.Input(t.Shape.N(), step.Bool)
	t.Drop(t.Input(1, step.Bool))
	t.Drop(ones)
	return mask
}

// chunkedMLP is the MLP of a layer with one projection for gate and up.
func (m *decoder) chunkedMLP(t *step.Tape, l *decoderLayer, x step.T) step.T {
	return chunked(t, m.a.Activation, l.gateUp, l.down, x)
}
