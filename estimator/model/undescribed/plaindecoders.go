package undescribed

import (
	_ "embed"
	"strings"

	"github.com/vramplan/vramplan/estimator/model/arch"
)

// plainDecoder is a decoder of transformers that nobody described, and that has exactly the parameters of a decoder put
// together from its configuration: what of it the file leaves unsaid.
type plainDecoder struct {
	// complete is what the class has without saying so, nil for nothing.
	complete func(u *unknown, d *arch.Dimensions)
	// extraRows are those of learned positions that no token has.
	extraRows int64
	// eager says that the class has no attention but the written-out formula.
	eager bool
	// gated says that the MLP of the class has a gate, whatever the activation.
	gated bool
	// siluExperts says that routed experts have SiLU, whatever the activation of the others.
	siluExperts bool
	// counted says that parameters were compared.
	counted bool
}

func (p plainDecoder) numbers(u *unknown, d *arch.Dimensions) {
	if p.complete != nil {
		p.complete(u, d)
	}
}

// PlainDecoders were compared with transformers 5.23 in their default configuration and with every key of it changed
// (testdata/transformers): they have its parameters or are refused.
// Source: transformers/models/*/modeling_*.py, 5.23.
var PlainDecoders = map[string]plainDecoder{
	"aria_text":   {gated: true, siluExperts: true},
	"biogpt":      {extraRows: 2},
	"codegen":     {complete: headBias, eager: true},
	"cwm":         {gated: true},
	"helium":      {gated: true, complete: squareOutput},
	"hyperclovax": {gated: true, complete: postNorms},
	"internlm3":   {gated: true},
	"iquestcoder": {gated: true},
	"jais2":       {},
	"persimmon":   {},
	"phimoe":      {gated: true, complete: layerNorms},
	"solar_open":  {gated: true, complete: plainOutput},
}

func layerNorms(_ *unknown, d *arch.Dimensions) { d.Norm = "layernorm" }

// plainOutput: attention_bias puts a bias on queries, keys and values alone.
func plainOutput(_ *unknown, d *arch.Dimensions) {
	if d.AttentionBias == arch.AttentionBiasAll {
		d.AttentionBias = arch.AttentionBiasQKV
	}
}

// squareOutput is plainOutput for heads that are as wide together as the layer.
func squareOutput(u *unknown, d *arch.Dimensions) {
	plainOutput(u, d)
	if d.HeadDim > 0 && d.Heads*d.HeadDim != d.Hidden {
		u.Errs.Add(u.Pointer+"/head_dim", "unsupported", "heads of %s that are together not as wide as the layer "+
			"are not understood", u.kind)
	}
}

func headBias(_ *unknown, d *arch.Dimensions) {
	d.AttentionBias, d.LMHeadBias, d.ParallelResidual, d.NormsPerLayer = arch.AttentionBiasNone, true, true, 1
}

// postNorms reads whether there are norms behind attention and MLP, too.
func postNorms(u *unknown, d *arch.Dimensions) {
	if on, _ := u.says("use_post_norm"); on {
		d.NormsPerLayer = 4
	}
}

// transformersTypes are the model types of transformers 5.23, a line each.
//
//go:embed transformers_types.txt
var transformersTypes string

// known is what is known of the model type besides its file. It refuses, and says no to, those of transformers that are
// not what their configurations say when read as a plain decoder's.
func (u *unknown) known() (plainDecoder, bool) {
	kind := strings.ToLower(u.kind)
	if p, ok := PlainDecoders[kind]; ok {
		p.counted = true
		return p, true
	}
	if strings.Contains("\n"+transformersTypes, "\n"+kind+"\n") {
		u.Errs.Add(u.Pointer+"/model_type", "unsupported", "model_type %.60q is a model of transformers that is not "+
			"described, and a decoder put together from its configuration "+
			"was not found to have its parameters; described are %s", u.kind, strings.Join(u.families, ", "))
		return plainDecoder{}, false
	}
	return plainDecoder{}, true
}
