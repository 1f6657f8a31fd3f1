package model

import (
	"math"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
)

// check holds the relations between an architecture's numbers.
func (a *Architecture) check(pointer string, errs *invalid.List, n fieldNames) {
	if a.FFN < 1 { // where the class makes it of the file's number
		errs.Add(pointer, "out_of_range", "the MLP of a layer would be %d wide; it is at least 1", a.FFN)
	}
	if a.HeadDim == 0 || !a.FreeHeadDim && (n.dim != "head_dim" || a.Hidden/a.Heads == a.HeadDim) &&
		a.Hidden%a.Heads != 0 {
		errs.Add(pointer+"/"+n.heads, "not_divisible", "%s %d does not divide %s %d", n.heads, a.Heads, n.hidden,
			a.Hidden)
		return
	}
	if a.KVHeads > 0 && a.Heads%a.KVHeads != 0 {
		errs.Add(pointer+"/"+n.kv, "not_divisible", "%s %d does not divide %s %d", n.kv, a.KVHeads, n.heads, a.Heads)
	}
	expertsOf(a).check(a, pointer, errs)
	if a.Rotary && a.HeadDim%2 != 0 {
		errs.Add(pointer+"/"+n.dim, "not_divisible", "the size of a head is %d; rotary positions need an even one",
			a.HeadDim)
	}
	width := float64(a.Heads) * float64(a.HeadDim)
	perLayer := float64(a.Hidden)*(4*width+4*float64(a.FFN)+expertsOf(a).width()) +
		float64(a.BufferSide)*float64(a.BufferSide)
	if total := float64(a.Layers)*perLayer + 3*float64(a.Vocabulary)*float64(a.Hidden) +
		float64(a.MaxPositions)*float64(a.Hidden); total > maxParameters {
		errs.Add(pointer, "too_large", "the model would have about %.1e parameters; up to %.0e are accepted", total,
			float64(maxParameters))
	}
}

// maxParameters keeps every sum of bytes far from the end of an int64.
const maxParameters = 1e14

// immense says that the parameters and buffers of all modules, of what stands beside the layers too, are more than
// maxParameters or wider than an int64. No module is made of more than the product of four numbers.
func (a *Architecture) immense() bool {
	_, parameters := a.Build(a.distinctLayers(), step.F32, nil)
	total := 0.0
	parameters.Distinct(func(p *step.Parameter, times int64) {
		elements := float64(p.Numel)
		if p.Numel < 0 || p.Rows < 0 || p.Cols < 0 {
			elements = math.Inf(1)
		}
		total += float64(times) * max(elements, float64(p.Rows)*float64(p.Cols))
	})
	return total > maxParameters
}

// FromNanoGPT is nanoGPT's model in train.py's numbers.
func FromNanoGPT(n NanoGPT, pointer string, errs *invalid.List) Architecture {
	return unrefused(errs, func(wrong *invalid.List) Architecture { return fromNanoGPT(n, pointer, wrong) })
}

func fromNanoGPT(n NanoGPT, pointer string, errs *invalid.List) Architecture {
	a := Architecture{
		Name: "nanogpt", Family: "nanogpt", family: &nanoGPTFamily, LearnedPositions: true,
		Layers: n.Layers, Hidden: n.Embedding, Heads: n.Heads, KVHeads: n.Heads, FFN: 4 * n.Embedding,
		Vocabulary: n.Vocabulary, MaxPositions: n.BlockSize, Tied: true, Activation: "gelu",
		NormBias: n.Bias, QKVBias: n.Bias, OutBias: n.Bias, MLPBias: n.Bias,
		EmbeddingDropout: n.Dropout, AttentionDropout: n.Dropout, ResidualDropout: n.Dropout,
	}
	if a.Vocabulary == 0 {
		a.Vocabulary = 50304 // train.py, where the data set has no meta.pkl
	}
	if a.MaxPositions == 0 {
		a.MaxPositions = 1024
	}
	for _, f := range []struct {
		name         string
		value, limit int64
	}{{"n_layer", n.Layers, maxLayers}, {"n_head", n.Heads, maxWidth}, {"n_embd", n.Embedding, maxWidth},
		{"vocab_size", a.Vocabulary, maxRows}, {"block_size", a.MaxPositions, maxRows}} {
		if f.value < 1 || f.value > f.limit {
			errs.Add(pointer+"/"+f.name, "out_of_range", "%s is %d; it is from 1 to %d", f.name, f.value, f.limit)
			return a
		}
	}
	if !(n.Dropout >= 0 && n.Dropout < 1) {
		errs.Add(pointer+"/dropout", "out_of_range", "dropout is %g; it is from 0 to below 1", n.Dropout)
	}
	a.HeadDim = n.Embedding / n.Heads
	a.check(pointer, errs, nanoGPTFamily.keys)
	return a
}

// kinds are those of the catalog that are modelled.
var kinds = map[string]bool{"decoder": true, "encoder": true, "encoder-decoder": true, "vision-encoder": true,
	"dual-encoder": true}

// FromPreset is the architecture of a catalog entry.
func FromPreset(p *Preset, pointer string, errs *invalid.List) Architecture {
	return unrefused(errs, func(wrong *invalid.List) Architecture { return fromPreset(p, pointer, wrong) })
}

func fromPreset(p *Preset, pointer string, errs *invalid.List) Architecture {
	if p.Recorded != nil {
		a := FromRecording(p.Recorded, pointer+"/recorded", errs)
		a.Name = p.ID
		return a
	}
	if p.NanoGPT != nil {
		a := FromNanoGPT(NanoGPT(*p.NanoGPT), pointer+"/nanogpt", errs)
		a.Name = p.ID
		return a
	}
	if p.HFConfig != nil {
		a := FromHF(p.HFConfig, pointer+"/hf_config", errs)
		a.Name = p.ID
		a.countsBias()
		return a
	}
	f, ok := families[p.Family]
	if !ok || !kinds[p.Kind] {
		errs.Add(pointer, "unsupported", "%q is of the family %q, which is not modelled yet; modelled are nanogpt, %s",
			p.ID, p.Family, strings.Join(Families(), ", "))
		return Architecture{}
	}
	a := p.fromNumbers(f, pointer, errs)
	a.Name = p.ID
	a.countsBias()
	return a
}
