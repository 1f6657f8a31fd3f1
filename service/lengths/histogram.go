package lengths

import (
	"maps"
	"math"
	"slices"
)

// Histogram is how many samples have so many tokens.
type Histogram struct {
	// Samples and Tokens are all of them.
	Samples, Tokens int64
	counts          map[int64]int64
}

// Add counts a sample of so many tokens.
func (h *Histogram) Add(tokens int64) {
	if h.counts == nil {
		h.counts = map[int64]int64{}
	}
	h.counts[tokens]++
	h.Samples++
	h.Tokens += tokens
}

// Within is the same data where samples are cut off at limit and padded to a multiple; 0 is neither.
func (h *Histogram) Within(limit, multiple int64) *Histogram {
	cut := &Histogram{Samples: h.Samples, counts: map[int64]int64{}}
	for tokens, n := range h.counts {
		if limit > 0 {
			tokens = min(tokens, limit)
		}
		if multiple > 1 {
			tokens = (tokens + multiple - 1) / multiple * multiple
		}
		cut.counts[tokens] += n
		cut.Tokens += tokens * n
	}
	return cut
}

// Quantile is the fewest tokens that a share of the samples do not exceed; 0 of no samples.
func (h *Histogram) Quantile(share float64) int64 {
	rank, seen := int64(math.Ceil(share*float64(h.Samples))), int64(0)
	for _, tokens := range slices.Sorted(maps.Keys(h.counts)) {
		if seen += h.counts[tokens]; seen >= max(rank, 1) {
			return tokens
		}
	}
	return 0
}

// Batch is the longest batch that an epoch may have.
type Batch struct {
	// Samples and Tokens are its height and width.
	Samples int64 `json:"samples"`
	Tokens  int64 `json:"tokens"`
	// Batches is how many an epoch has, the last short one included.
	Batches int64 `json:"batches"`
	// Expected is how many of them are so large on average, and Probability that an epoch has at least one.
	Expected    float64 `json:"expected"`
	Probability float64 `json:"probability"`
}

// Longest is the longest batch of so many samples where each is padded to its longest one, every sample comes once an
// epoch in an order that is drawn anew, and the last batch has what is left: torch's RandomSampler and a DataLoader
// that drops nothing. Fewer samples than a batch are one batch.
//
// A batch misses all k longest of N samples with C(N-k, B)/C(N, B); all of them lie in the last r with C(r, k)/C(N, k).
func (h *Histogram) Longest(samples int64) Batch {
	if h.Samples == 0 || samples < 1 {
		return Batch{}
	}
	all, b := h.Samples, min(samples, h.Samples)
	tokens := slices.Max(slices.Collect(maps.Keys(h.counts)))
	longest, left := h.counts[tokens], all%b
	misses, short := 1.0, 1.0
	for i := range b {
		if misses *= float64(max(all-longest-i, 0)) / float64(all-i); misses == 0 {
			break
		}
	}
	for i := range longest {
		if short *= float64(max(left-i, 0)) / float64(all-i); short == 0 {
			break
		}
	}
	return Batch{Samples: b, Tokens: tokens, Batches: (all + b - 1) / b, Expected: float64(all/b) * (1 - misses),
		Probability: 1 - short}
}
