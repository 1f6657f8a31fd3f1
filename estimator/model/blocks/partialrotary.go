package blocks

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// PartialRotary is what the decoders whose rotary positions turn only a part of every head have of their own.
type PartialRotary struct {
	// Width is how many elements of a head are turned.
	Width int64
	// Parallel runs attention and MLP on the same input, beside each other.
	Parallel bool
}

// RotaryWidth is width, for those that embed it.
func (p *PartialRotary) RotaryWidth() int64 { return p.Width }

// Partly is p, for those that embed it.
func (p *PartialRotary) Partly() *PartialRotary { return p }

// Rotary is the family's own part of a.
func Rotary(a *arch.Architecture) *PartialRotary {
	return a.Own.(interface{ Partly() *PartialRotary }).Partly()
}

// RotaryFraction reads how many elements of a head are turned. Where the module takes that from the tables of cosines
// and sines (tableRules), an odd number is rounded up with them.
func RotaryFraction(c *arch.Config, key string, a *arch.Architecture, tableRules bool) int64 {
	f, ok := c.Factor(key, 1)
	if !ok {
		return a.HeadDim
	}
	switch width := int64(float64(a.HeadDim) * f); {
	case a.HeadDim == 0: // said already
	case width < 1 || width%2 != 0 && (!tableRules || width == a.HeadDim):
		c.Errs.Add(c.Pointer+"/"+key, "not_divisible", "%s %g of a head of %d is %d elements; rotary positions turn "+
			"an even number, at least 2", key, f, a.HeadDim, width)
	default:
		return width + width%2
	}
	return 0
}

// Rotated is a query or a key while the part of it that is turned is apart from the rest.
type Rotated struct{ Turned, Rest step.T }

// Split is x[..., :width] and x[..., width:] of every head. All of a head is no slice but x itself.
func (p *PartialRotary) Split(t *step.Tape, x step.T, headDim int64) Rotated {
	n := x.Numel() / headDim * p.Width
	if p.Width == headDim {
		return Rotated{t.Hold(x), t.Slice(x, 0)}
	}
	return Rotated{t.Slice(x, n), t.Slice(x, x.Numel()-n)}
}

// Drop lets go of both parts.
func (r Rotated) Drop(t *step.Tape) {
	t.Drop(r.Turned, r.Rest)
}

// Attend is sdpa_attention_forward or eager_attention_forward. It returns the output, tokens first, and, where they
// are formed, the probabilities.
// Source: transformers/integrations/sdpa_attention.py, 4.57.
func Attend(t *step.Tape, a *arch.Architecture, mask *step.T, q, k, v step.T) (step.T, *step.T) {
	heads := a.Geometry()
	eager := t.Recipe.Attention == step.AttentionEager
	if t.RepeatsGrouped(heads, mask != nil) {
		k, v = t.RepeatKV(k, heads), t.RepeatKV(v, heads)
		heads.KV = heads.Query
		defer t.Drop(k)
		defer t.Drop(v)
	}
	if eager {
		y, p := t.Eager(step.EagerAttention{Heads: heads, Dropout: a.AttentionDropout, Mask: mask, Upcast: true}, q, k,
			v)
		return y, &p
	}
	if t.Recipe.SelectiveAttention { // the casts belong to what is made again
		return t.TokensFirst(t.SDPA(q, k, v, heads, mask, a.AttentionDropout), heads, mask != nil), nil
	}
	qc, kc, vc := t.AutocastQKV(q, k, v)
	y := t.SDPA(qc, kc, vc, heads, mask, a.AttentionDropout)
	t.Drop(qc, kc, vc)
	return t.TokensFirst(y, heads, mask != nil), nil
}

// AppendKV is past_key_values.update, if there is a cache: it takes over k and v and adds to cache what stays there.
func AppendKV(t *step.Tape, cache *[]step.T, k, v step.T) (step.T, step.T) {
	if !t.Recipe.UseCache {
		return k, v
	}
	kc := t.CacheAppend(k, k.Dtype())
	vc := t.CacheAppend(v, kc.Dtype())
	t.Drop(k, v)
	*cache = append(*cache, t.Hold(kc), t.Hold(vc))
	return kc, vc
}
