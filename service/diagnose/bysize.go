package diagnose

import "slices"

// flat says whether as much is asked for as is allocated: a copy of everything that is there. Small requests are so by
// chance.
func (m *Message) flat(a Accounting) bool {
	if a.AllocatedBytes == nil || *m.RequestedBytes < gib {
		return false
	}
	apart := *m.RequestedBytes - *a.AllocatedBytes
	return max(apart, -apart)*100 <= *m.RequestedBytes
}

// aloneTimes is how many times all that is allocated a single request is for the card to hold nothing of a pass that
// keeps what backward needs.
const aloneTimes = 10

// huge is a request that no card of this size could serve.
func (m *Message) huge(c *Cause, a Accounting) {
	r := *m.RequestedBytes
	if r&(r-1) == 0 || r%(1<<30) == 0 && (r>>30)&((r>>30)-1) == 0 {
		tokens := int64(1)
		for tokens*tokens*2*4 <= r {
			tokens *= 2
		}
		c.settle(ClassAttentionScores, OneOf, "one tensor of "+formatBytes(r)+
			", a power of two and larger than the card: scores or a mask of tokens × tokens are so, as with "+
			itoa(tokens/2)+" or "+itoa(tokens/4)+" tokens (for 16384 tokens, 256 Mi elements a head)")
		return
	}
	if a.AllocatedBytes != nil && r <= *a.TotalBytes && *a.AllocatedBytes > 0 && r/aloneTimes >= *a.AllocatedBytes {
		c.settle(ClassEval, Likely, "one tensor of "+formatBytes(r)+" beside "+formatBytes(*a.AllocatedBytes)+
			" that is all there is: a training step would keep what its layers before it made, an evaluation keeps "+
			"nothing, and takes or gathers all of its data at once")
		return
	}
	c.Class, c.Certainty = ClassUnknown, Untold
	c.Evidence = append(c.Evidence, "one tensor of "+formatBytes(r)+
		", larger than the card or nearly: the sequence length or a size in the job is far from what was meant, or an "+
		"evaluation takes or keeps all of its data in one tensor")
}

// bySize is a request of which nothing but its size is known. models are the tensors of the catalog's models that have
// it.
func (m *Message) bySize(c *Cause, models []Candidate) {
	if len(models) == 0 {
		return
	}
	all, logits := 0, 0
	for i := range models {
		switch t := &models[i]; t.Class {
		case ClassWeightsFlat:
			c.Candidates = models[i : i+1]
			c.settle(ClassWeightsFlat, OneOf, "the size is that of all parameters of "+t.Model)
			return
		case ClassLogits:
			logits += t.models
			fallthrough
		default:
			all += t.models
		}
	}
	// At two thirds more than one in ten of what is called so is another tensor where vocabularies are round numbers,
	// and four fifths leave a quarter of the failures uncalled of vocabularies like no other number
	// (TestLogitsByTheirSizeAlone).
	if logits >= surelyLogits && 4*logits >= 3*all {
		models = slices.DeleteFunc(models, func(t Candidate) bool { return t.Class != ClassLogits })
		c.Candidates = models[:min(len(models), maxCandidates)]
		c.settle(ClassLogits, OneOf, "the size is a round number of tokens times the vocabulary of "+
			"models of the catalog: "+itoa(int64(logits))+" of the "+itoa(int64(all))+
			" tensors that have it are logits")
		return
	}
	if len(models) >= maxCandidates {
		return // so many that they say nothing
	}
	c.Candidates = models
	c.Evidence = append(c.Evidence,
		"tensors of several sorts have the size in models of the catalog: they are listed, "+
			"and the size alone does not tell which it was")
}

// surelyLogits is how many models have to have logits of a size before a share of them says anything.
const surelyLogits = 3

// within is the candidates of a size.
func within(list []Candidate, w Window) []Candidate {
	var fit []Candidate
	for _, t := range list {
		if w.Contains(t.Bytes) {
			fit = append(fit, t)
		}
	}
	return fit
}

// fitting is the candidates of a size that are listed.
func fitting(list []Candidate, w Window) []Candidate {
	fit := within(list, w)
	return fit[:min(len(fit), maxCandidates)]
}
