package assistant

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/decision"
)

// Verdict is the answer about one job, in short.
type Verdict struct {
	// Says is the verdict in a sentence.
	Says    string            `json:"says"`
	Verdict estimator.Verdict `json:"verdict,omitempty" jsonschema:"fits, tight, unlikely, does_not_fit or unknown, on the card that suits the job best"`
	// Decision is check's.
	Decision string `json:"decision,omitempty" jsonschema:"what a scheduler's hook would do: allow, or refuse where the job surely does not fit"`

	Model       string `json:"model,omitempty"`
	Parameters  int64  `json:"parameters,omitempty"`
	NeedsBytes  int64  `json:"needs_bytes" jsonschema:"what the process takes on the card, as nvidia-smi shows it"`
	AtLeastOnly bool   `json:"at_least,omitempty" jsonschema:"needs_bytes is the least that is taken: a brief plan plays no further what cannot fit"`
	LowBytes    int64  `json:"low_bytes,omitempty"`
	HighBytes   int64  `json:"high_bytes,omitempty"`

	Cards []estimator.GPUFit `json:"cards,omitempty"`
	Holds []Held             `json:"holds,omitempty" jsonschema:"what holds the memory at its peak"`
	// Peak is when that is.
	Peak string `json:"peak,omitempty"`

	EffectiveBatch int64           `json:"effective_batch,omitempty"`
	Recommended    *planner.Choice `json:"recommended,omitempty" jsonschema:"the fastest pair of micro-batch and accumulation that fits"`
	Largest        int64           `json:"largest_micro_batch,omitempty"`
	SmallestGPUs   []string        `json:"smallest_gpus,omitempty" jsonschema:"smallest cards on which the job fits as it is"`
	WaysOut        []WayOut        `json:"ways_out,omitempty" jsonschema:"the first ways out, the best first"`

	Assumed *estimator.Assumed `json:"assumed,omitempty" jsonschema:"how the job was taken to train, defaults included"`
	Doubts  string             `json:"doubts,omitempty"`
	Notes   []string           `json:"notes,omitempty"`

	Whole json.RawMessage `json:"whole,omitempty" jsonschema:"the API's own answer"`
}

// Held is one component of a peak.
type Held struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	How   string `json:"how,omitempty"`
}

// WayOut is an option of a plan.
type WayOut struct {
	Title       string            `json:"title"`
	Verdict     estimator.Verdict `json:"verdict"`
	NeedsBytes  int64             `json:"needs_bytes"`
	AtLeastOnly bool              `json:"at_least,omitempty"`
	// Changes are fields of training with their new values.
	Changes  map[string]any `json:"changes,omitempty" jsonschema:"fields of training with their new values; model and gpus replace the job's own"`
	Settings []string       `json:"settings,omitempty" jsonschema:"the same in the words of the job's own tool"`
	Time     float64        `json:"relative_step_time,omitempty" jsonschema:"of the same number of tokens, beside the job as it is"`
	Effect   string         `json:"training_effect,omitempty" jsonschema:"what it does to the result of training; none where left out"`
}

// Of each list a brief answer has so many at most.
const (
	mostCards = 6
	mostHeld  = 6
	mostWays  = 3
	mostNotes = 4
)

// of reads a verdict off an estimate.
func (v *Verdict) of(r *estimator.Result) {
	p := r.Peak
	v.Model, v.Parameters, v.Assumed = r.Model.Name, r.Model.Parameters, r.Assumed
	v.NeedsBytes, v.LowBytes, v.HighBytes, v.Peak = p.DeviceBytes, p.LowBytes, p.HighBytes, p.Where
	held := slices.Clone(r.Components)
	slices.SortStableFunc(held, func(a, b estimator.Component) int { return cmp.Compare(b.Bytes, a.Bytes) })
	for _, c := range held[:min(mostHeld, len(held))] {
		if c.Bytes > 0 {
			v.Holds = append(v.Holds, Held{c.Name, c.Bytes, c.How})
		}
	}
	v.Doubts = doubts(r)
	for _, n := range r.Notes {
		if n.Code != "peak" && len(v.Notes) < mostNotes {
			v.Notes = append(v.Notes, n.Text)
		}
	}
	if len(r.GPUs) == 0 {
		v.Says = fmt.Sprintf("%s needs %s on a card (between %s and %s). Name a card in gpus to hear whether it fits.", r.Model.Name,
			size(p.DeviceBytes), size(p.LowBytes), size(p.HighBytes))
		return
	}
	best := decision.Best(r.GPUs)
	v.Verdict = best.Verdict
	v.Cards = nearest(r.GPUs)
	needs := cmp.Or(best.DeviceBytes, p.DeviceBytes)
	room := fmt.Sprintf("it needs %s of %s", size(needs), size(best.UsableBytes))
	switch best.Verdict {
	case estimator.Fits:
		v.Says = fmt.Sprintf("Fits on %s: %s, and up to %s.", best.GPU, room, size(p.HighBytes))
	case estimator.Tight:
		v.Says = fmt.Sprintf("Tight on %s: %s, but up to %s may be taken.", best.GPU, room, size(p.HighBytes))
	case estimator.Unlikely:
		v.Says = fmt.Sprintf("Unlikely to fit on %s: %s.", best.GPU, room)
	case estimator.DoesNotFit:
		v.Says = fmt.Sprintf("Does not fit on %s: %s.", best.GPU, room)
	default:
		v.Says = fmt.Sprintf("Nobody knows how much %s gives to CUDA: the job needs %s.", best.GPU, size(p.DeviceBytes))
	}
	if n := len(r.GPUs); n > 1 {
		fits := 0
		for _, g := range r.GPUs {
			if g.Verdict == estimator.Fits {
				fits++
			}
		}
		v.Says += fmt.Sprintf(" It fits on %d of %d cards.", fits, n)
	}
}

// nearest are the cards that say most: the smallest that the job fits on, and the largest that it does not.
func nearest(all []estimator.GPUFit) []estimator.GPUFit {
	if len(all) <= mostCards {
		return all
	}
	fits := func(g estimator.GPUFit) bool { return g.Verdict == estimator.Fits }
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b estimator.GPUFit) int {
		switch {
		case fits(a) != fits(b) && fits(a):
			return -1
		case fits(a) != fits(b):
			return 1
		case fits(a):
			return cmp.Compare(a.UsableBytes, b.UsableBytes)
		}
		return cmp.Compare(b.UsableBytes, a.UsableBytes)
	})
	return sorted[:mostCards]
}

// doubts are why a run may take more or less than was said, in a sentence.
func doubts(r *estimator.Result) string {
	above, below := estimator.DoubtSource{}, estimator.DoubtSource{}
	for _, d := range r.Doubts {
		if d.AboveBytes > above.AboveBytes {
			above = d
		}
		if d.BelowBytes > below.BelowBytes {
			below = d
		}
	}
	proven := "no trace of a real run shows this family with these releases"
	if r.Versions.ProvenOn != "" {
		proven = "traces on " + r.Versions.ProvenOn + " show the replay of this family exact"
	}
	switch {
	case above.Source == "" && below.Source == "":
		return "None is known; " + proven + "."
	case above.Source == below.Source || below.Source == "":
		return fmt.Sprintf("A run may hold up to %s more (%s); %s.", size(above.AboveBytes), clip(above.How, 200), proven)
	}
	return fmt.Sprintf("A run may hold up to %s more (%s) or %s less (%s); %s.", size(above.AboveBytes), clip(above.How, 200),
		size(below.BelowBytes), clip(below.How, 200), proven)
}

// ways are the first options of a plan, what fits before what may.
func ways(p *planner.Plan) []WayOut {
	rank := map[estimator.Verdict]int{estimator.Fits: 0, estimator.Tight: 1, estimator.Unlikely: 2}
	options := slices.Clone(p.Options)
	slices.SortStableFunc(options, func(a, b planner.Option) int {
		of := func(o planner.Option) int {
			if n, ok := rank[o.Verdict]; ok {
				return n
			}
			return len(rank)
		}
		return cmp.Compare(of(a), of(b))
	})
	var out []WayOut
	for _, o := range options[:min(mostWays, len(options))] {
		w := WayOut{Title: o.Title, Verdict: o.Verdict, NeedsBytes: o.DeviceBytes, AtLeastOnly: o.AtLeast,
			Changes:  o.Changes,
			Settings: o.Settings, Time: o.RelativeStepTime.Expected}
		if o.TrainingEffect != "none" {
			w.Effect = o.TrainingEffect
		}
		out = append(out, w)
	}
	return out
}

func size(bytes int64) string { return estimator.Bytes(bytes).String() }

func atLeast(bytes int64, only bool) string {
	if only {
		return "at least " + size(bytes)
	}
	return size(bytes)
}

func (v *Verdict) complete() bool { return v.Whole != nil }

func (v *Verdict) words() string {
	var b strings.Builder
	b.WriteString(v.Says)
	if v.Decision != "" {
		b.WriteString(" A scheduler's hook would " + v.Decision + " it.")
	}
	if len(v.Holds) > 0 {
		b.WriteString("\n\nWhat holds it, in " + v.Peak + ":")
		for _, h := range v.Holds {
			fmt.Fprintf(&b, "\n- %s %s: %s", plain(h.Name), size(h.Bytes), h.How)
		}
	}
	if v.Recommended != nil {
		fmt.Fprintf(&b, "\n\nRecommended for an effective batch of %d: micro-batch %d × accumulation %d.", v.EffectiveBatch,
			v.Recommended.MicroBatch, v.Recommended.GradientAccumulation)
	}
	if len(v.WaysOut) > 0 {
		b.WriteString("\n\nWays out:")
		for i, w := range v.WaysOut {
			fmt.Fprintf(&b, "\n%d. %s: %s, %s", i+1, w.Title, atLeast(w.NeedsBytes, w.AtLeastOnly), plain(string(w.Verdict)))
			if w.Time > 0 {
				fmt.Fprintf(&b, ", %.2f× the time", w.Time)
			}
			if len(w.Settings) > 0 {
				b.WriteString("; " + strings.Join(w.Settings, ", "))
			}
			if w.Effect != "" {
				b.WriteString(" (changes training: " + w.Effect + ")")
			}
		}
	}
	if len(v.SmallestGPUs) > 0 {
		b.WriteString("\n\nSmallest cards for the job as it is: " + strings.Join(v.SmallestGPUs, ", ") + ".")
	}
	if a := v.Assumed; a != nil {
		b.WriteString("\n\nAssumed: " + assumed(a) + ".")
	}
	if v.Doubts != "" {
		b.WriteString("\nDoubts: " + v.Doubts)
	}
	return b.String()
}

// assumed is how a job was taken to train, in a line.
func assumed(a *estimator.Assumed) string {
	parts := []string{fmt.Sprintf("micro-batch %d", a.MicroBatch)}
	if a.SequenceLength > 0 {
		parts = append(parts, fmt.Sprintf("%d tokens", a.SequenceLength))
	}
	optimizer, by, _ := strings.Cut(a.Optimizer, ", ")
	if by != "" {
		optimizer += " (" + by + ")"
	}
	parts = append(parts, fmt.Sprintf("accumulation %d", a.GradientAccumulation), string(a.Precision), optimizer,
		"attention "+a.Attention, "gradient checkpointing "+a.GradientCheckpointing)
	if a.Adapters != "" {
		parts = append(parts, a.Adapters)
	}
	parts = append(parts, a.Framework)
	for _, library := range sortedKeys(releases(a)) {
		parts = append(parts, library+" "+a.Releases[library])
	}
	return strings.Join(parts, ", ")
}

func releases(a *estimator.Assumed) object {
	all := object{}
	for k := range a.Releases {
		all[k] = true
	}
	return all
}

func plain(word string) string { return strings.ReplaceAll(word, "_", " ") }

func (v *Verdict) shorten() bool {
	switch {
	case len(v.Notes) > 0:
		v.Notes = v.Notes[:len(v.Notes)-1]
	case len(v.Cards) > 2:
		v.Cards = v.Cards[:len(v.Cards)-1]
	case len(v.Holds) > 3:
		v.Holds = v.Holds[:len(v.Holds)-1]
	case slices.ContainsFunc(v.WaysOut, func(w WayOut) bool { return shortenWay(&w) }):
		for i := range v.WaysOut {
			if shortenWay(&v.WaysOut[i]) {
				break
			}
		}
	case len(v.WaysOut) > 1:
		v.WaysOut = v.WaysOut[:len(v.WaysOut)-1]
	case len([]rune(v.Doubts)) > 300:
		v.Doubts = clip(v.Doubts, 300)
	case len([]rune(v.Says)) > 500:
		v.Says = clip(v.Says, 500)
	case len(v.Model) > 200:
		v.Model = clip(v.Model, 200)
	default:
		return false
	}
	return true
}

// shortenWay leaves out of a way what is long beyond use, such as a configuration of another model.
func shortenWay(w *WayOut) bool {
	const long = 600
	for _, key := range sortedKeys(w.Changes) {
		if text, err := encode(w.Changes[key]); err == nil && len(text) > long {
			changes := object{}
			for k, v := range w.Changes {
				changes[k] = v
			}
			changes[key] = "left out: ask for the whole"
			w.Changes = changes
			return true
		}
	}
	for i, s := range w.Settings {
		if len([]rune(s)) > long {
			w.Settings = slices.Clone(w.Settings)
			w.Settings[i] = clip(s, long)
			return true
		}
	}
	if len(w.Settings) > 6 {
		w.Settings = w.Settings[:6]
		return true
	}
	return false
}
