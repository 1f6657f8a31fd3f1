package model

import "github.com/vramplan/vramplan/estimator/step"

// partialRotary is what the decoders whose rotary positions turn only a part of every head have of their own.
type partialRotary struct {
	// width is how many elements of a head are turned.
	width int64
	// parallel runs attention and MLP on the same input, beside each other.
	parallel bool
}

// rotaryWidth is width, for those that embed it.
func (p *partialRotary) rotaryWidth() int64 { return p.width }

func (p *partialRotary) partly() *partialRotary { return p }

// rotary is the family's own part of a.
func (a *Architecture) rotary() *partialRotary {
	return a.own.(interface{ partly() *partialRotary }).partly()
}

// rotaryFraction reads how many elements of a head are turned. Where the module takes that from the tables of cosines
// and sines (tableRules), an odd number is rounded up with them.
func (c *config) rotaryFraction(key string, a *Architecture, tableRules bool) int64 {
	f, ok := c.factor(key, 1)
	if !ok {
		return a.HeadDim
	}
	switch width := int64(float64(a.HeadDim) * f); {
	case a.HeadDim == 0: // said already
	case width < 1 || width%2 != 0 && (!tableRules || width == a.HeadDim):
		c.errs.Add(c.pointer+"/"+key, "not_divisible", "%s %g of a head of %d is %d elements; rotary positions turn "+
			"an even number, at least 2", key, f, a.HeadDim, width)
	default:
		return width + width%2
	}
	return 0
}

// rotated is a query or a key while the part of it that is turned is apart from the rest.
type rotated struct{ turned, rest step.T }

// split is x[..., :width] and x[..., width:] of every head. All of a head is no slice but x itself.
func (p *partialRotary) split(t *step.Tape, x step.T, headDim int64) rotated {
	n := x.Numel() / headDim * p.width
	if p.width == headDim {
		return rotated{t.Hold(x), t.Slice(x, 0)}
	}
	return rotated{t.Slice(x, n), t.Slice(x, x.Numel()-n)}
}

func (r rotated) drop(t *step.Tape) {
	t.Drop(r.turned, r.rest)
}

// attend is sdpa_attention_forward or eager_attention_forward. It returns the output, tokens first, and, where they
// are formed, the probabilities.
// Source: transformers/integrations/sdpa_attention.py, 4.57.
func attend(t *step.Tape, a *Architecture, mask *step.T, q, k, v step.T) (step.T, *step.T) {
	heads := a.geometry()
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

// appendKV is past_key_values.update, if there is a cache: it takes over k and v and adds to cache what stays there.
func appendKV(t *step.Tape, cache *[]step.T, k, v step.T) (step.T, step.T) {
	if !t.Recipe.UseCache {
		return k, v
	}
	kc := t.CacheAppend(k, k.Dtype())
	vc := t.CacheAppend(v, kc.Dtype())
	t.Drop(k, v)
	*cache = append(*cache, t.Hold(kc), t.Hold(vc))
	return kc, vc
}
