package planner

import (
	"fmt"
	"math"
	"strconv"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/steptime"
	"github.com/vramplan/vramplan/estimator/planner/traits"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// effectiveBatchEffect says what another effective batch does to training, with
// starting points for what should follow it.
//
// Adam: learning rate × √k (Malladi et al. 2022, arXiv 2205.10287) and beta2^k,
// which keeps the half-life of the second moment in tokens (Marek et al. 2025,
// arXiv 2507.07101). SGD: learning rate × k, with warm-up (Goyal et al. 2017,
// arXiv 1706.02677). All are rules of thumb: the best rate of Adam rises and then
// falls with the batch (Li et al. 2024, arXiv 2405.14578).
func effectiveBatchEffect(t estimator.Training, from, to int64) string {
	k := float64(to) / float64(from)
	change := fmt.Sprintf("effective batch %d → %d (%s %%)", from, to, signedPercent(k-1))
	if math.Abs(k-1) < 0.02 {
		return change + "; settings can stay"
	}
	switch traits.RowOf(t).Rate {
	case optim.RateLinear:
		return fmt.Sprintf("%s; starting point: learning rate × %.3g", change, k)
	case optim.RateSquareRoot:
		return fmt.Sprintf("%s; starting points: learning rate × %.2g, beta2 0.95 → %s or 0.999 → %s",
			change, math.Sqrt(k), beta(0.95, k), beta(0.999, k))
	}
	return change + "; the learning rate has to follow"
}

// beta is beta2 after the batch changed k-fold, with enough digits to tell it from one.
func beta(old, k float64) string {
	b := math.Pow(old, k)
	digits := 1 - int(math.Floor(math.Log10(math.Max(1-b, 1e-9))))
	return strconv.FormatFloat(b, 'f', max(4, digits), 64)
}

// signedPercent prints a share as a percentage, with a digit after the point
// below ten.
func signedPercent(x float64) string {
	digits := 0
	if math.Abs(x) < 0.095 {
		digits = 1
	}
	return fmt.Sprintf("%+.*f", digits, x*100)
}

// caveats says where accumulation is not quite a larger batch, or costs more than
// time. Codes are for programs.
func (t teller) caveats(accumulates bool) {
	family := t.s.floor.Result.Model.Family
	if !accumulates {
		return
	}
	if t.s.Tool != "nanogpt" {
		t.s.Notes.Add("loss-normalisation", "Accumulation equals the larger batch only if the loss is divided by the "+
			"tokens of the whole effective batch; "+
			"a mean of per-micro-batch means gives short sequences too much weight (transformers before 4.46 does so, "+
			"and some models after it). Sequences of equal length are not affected.")
		t.s.Notes.Add("partial-window", "Where the last accumulation window of an epoch is not full, some trainers "+
			"still divide by the configured count.")
	}
	o := t.s.Costs.Base.Job.Training.Objective
	if family == "clip" || o != nil && o.Kind == "contrastive" && o.Loss != "triplet" {
		t.s.Notes.Add("contrastive-loss", "The contrastive loss sees only the pairs of its own micro-batch as "+
			"negatives, so accumulation does not give the loss of the larger batch.")
	}
}

// exchanges says what GPUs tell each other in the job and in options that take several, and what of it is in the times.
func (t teller) exchanges(options []document.Option) {
	seen := map[string]bool{}
	if d := t.s.Costs.Base.Job.Training.Distributed; d != nil && t.s.Batch.GPUs > 1 {
		seen[d.Data] = true
	}
	for _, o := range options {
		if d, ok := o.Changes["distributed"].(estimator.Distributed); ok {
			seen[d.Data] = true
		}
	}
	if seen["fsdp"] || seen["zero3"] {
		t.s.Notes.Add("fsdp-no-sync", "Every micro-step gathers the sharded parameters again; no_sync saves the "+
			"reduction between micro-steps but keeps whole gradients on each GPU. The step times here count both in "+
			"every micro-step.")
	}
	if seen[""] || seen["ddp"] {
		t.s.Notes.Add("ddp-no-sync", "Use no_sync (or the trainer's own accumulation) so that gradients are reduced "+
			"once a step; a reduction in every micro-step can double the time of a step. The step times here "+
			"count one a step.")
	}
	if len(seen) > 0 {
		c := steptime.CardOf(t.s.GPU, "")
		t.s.Notes.Add("communication", "Times on several GPUs count what these send each other over links of %.3g GB/s "+
			"each way (%.3g GB/s for each GPU between hosts of %d), of which 30 to 85 %% are reached, less what computing hides. "+
			"Slower links, and cards that reach each other only through two processors, take longer.", c.Link/1e9,
			c.Network/1e9, steptime.HostGPUs)
	}
}
