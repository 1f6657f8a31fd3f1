package estimator

import (
	"github.com/vramplan/vramplan/estimator/replay"
)

// Replays remembers what the caching allocator made of a job, by what the job asked of it: cards and settings that make
// no difference to that share one replay. It is for questions that belong together, such as those of a plan or about
// the cards of a catalog; answers are what [Estimate] and [Judge] say without it. It may be used by several goroutines.
type Replays struct{ memory *replay.Memory }

// NewReplays remembers nothing yet.
func NewReplays() *Replays { return &Replays{replay.NewMemory()} }

// NewReplaysOf is NewReplays for questions of strangers, of which there is no end: it forgets all but the last most
// replays that were asked for, and at most as many before them.
func NewReplaysOf(most int) *Replays { return &Replays{replay.NewMemoryOf(most)} }

// forOne remembers replays for one answer, where it has several cards.
func forOne(in Input) *replay.Memory {
	if len(in.GPUs) > 1 {
		return replay.NewMemory()
	}
	return nil
}

// Estimate is [Estimate].
func (p *Replays) Estimate(in Input) (*Result, error) { return estimate(in, true, p.memory) }

// Judge is [Judge].
func (p *Replays) Judge(in Input) (*Result, error) { return estimate(in, false, p.memory) }
