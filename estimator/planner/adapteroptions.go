package planner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// adapterOptions are LoRA and QLoRA for a job that trains a whole published model, where nothing fits that leaves
// training alone: each with as little besides as makes it fit, at today's pair or the smallest, and else with full
// checkpointing at the smallest, to say how far that goes.
func (s *search) adapterOptions(ctx context.Context, work []asking.Judged, best *asking.Judged) ([]proposal, error) {
	if s.Costs.Base.Job.Training.LoRA != nil {
		return nil, nil // whose base is a lever by itself
	}
	start := s.startingPoint(best)
	at := []pairing.Choice{start.Choice()}
	if n := len(work); n > 0 && work[n-1].Micro < start.Micro {
		at = append(at, work[n-1].Choice())
	}
	var recompute []lever.Lever
	for _, l := range lever.Worded(lever.Checkpointing(s.Costs.Base), s.Tool) {
		if l.Code == "checkpointing-full" {
			recompute = append(recompute, l)
		}
	}
	var out []proposal
	for _, l := range lever.Worded(lever.Adapters(s.Costs.Base), s.Tool) {
		variants := []lever.Variant{lever.NewVariant(l)}
		for _, r := range recompute {
			variants = append(variants, lever.NewVariant(r, l))
		}
		if !s.Affords(len(variants)*len(at), "adapters with other settings") {
			break
		}
		least, err := s.firstFitting(ctx, variants, at)
		if err != nil {
			return nil, err
		}
		if least != nil {
			out = append(out, proposal{Judged: *least, title: title(least.With), beside: &start})
		}
	}
	return out, nil
}

// firstFitting is the first of some variants that fits at one of some pairs; where none does, the last that has an
// answer at the last of them, and nil where none has.
func (s *search) firstFitting(ctx context.Context, vs []lever.Variant, at []pairing.Choice) (*asking.Judged, error) {
	for _, v := range vs {
		for _, pair := range at {
			j, err := s.JudgeHopeful(ctx, v, pair, s.Judge)
			if err != nil || j != nil && j.Fits() {
				return j, err
			}
		}
	}
	for _, v := range slices.Backward(vs) {
		j, err := s.Judge(ctx, v, at[len(at)-1])
		if err != nil || j.Result != nil {
			return &j, err
		}
	}
	return nil, nil
}

// explainPacking says why adapters on a base in 4 bits take more than on a base as it is, where they do.
func (s *search) explainPacking(levers []lever.Lever, alone []asking.Judged, start asking.Judged) {
	of := func(code string) *asking.Judged {
		i := slices.IndexFunc(levers, func(l lever.Lever) bool { return l.Code == code })
		if i < 0 || alone[i].Result == nil {
			return nil
		}
		return &alone[i]
	}
	if packed := of("adapters-nf4"); packed != nil {
		s.explainMore(*packed, start, "QLoRA", "LoRA")
	}
	if packed, plain := of("adapters-qlora"), of("adapters-lora"); packed != nil && plain != nil {
		s.explainMore(*packed, *plain, "QLoRA", "LoRA")
	}
}

// explainMore says what a setting holds more of that is to save memory, where it takes more than another: both were
// played at one pair.
func (s *search) explainMore(with, without asking.Judged, name, other string) {
	if with.Result == nil || without.Result == nil || with.AtLeast() || without.AtLeast() ||
		with.DeviceBytes() <= without.DeviceBytes() {
		return
	}
	held := map[string]int64{}
	for _, c := range without.Result.Components {
		held[c.Name] = c.Bytes
	}
	var more, less []string
	activations := false
	for _, c := range with.Result.Components {
		by := c.Bytes - held[c.Name]
		words := strings.ReplaceAll(c.Name, "_", " ") + " " + estimator.Bytes(max(by, -by)).String()
		switch {
		case by >= 1<<20:
			more = append(more, words)
			activations = activations || c.Name == "activations"
		case by <= -1<<20:
			less = append(less, words)
		}
	}
	text := fmt.Sprintf("At %d × %d %s takes %s and %s %s. At the peak, in %s, more is held of: %s", with.Micro, with.Accum,
		name, estimator.Bytes(with.DeviceBytes()), other, estimator.Bytes(without.DeviceBytes()),
		document.PeakOf(with.Result),
		cmp.Or(strings.Join(more, ", "), "what the allocator keeps"))
	if len(less) > 0 {
		text += "; less of: " + strings.Join(less, ", ")
	}
	switch {
	case name == "QLoRA" && activations:
		text += ". peft's prepare_model_for_kbit_training makes float32 of what is not packed, and with it of what flows " +
			"between the layers: of long sequences that is more than packing saves, unless blocks are recomputed"
	case name == "QLoRA":
	case activations:
		text += ". Attention in one kernel keeps no scores: recomputing it frees little, and what it is recomputed from is " +
			"kept besides"
	default:
		text += ". What is recomputed is not alive there, and blocks of other sizes fit worse into what the allocator holds"
	}
	s.Notes.Add("takes-more", "%s.", text)
}
