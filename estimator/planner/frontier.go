package planner

import (
	"cmp"
	"context"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// frontierShortest is where the frontier starts; shorter sequences are no use to
// a language model.
const frontierShortest = 128

// edgeQuestions is about how many questions it takes to find where a job does not fit any more.
const edgeQuestions = 8

// frontier gives the largest micro-batch by sequence length: powers of two up to
// the model's context, and the job's own length.
func (s *search) frontier(ctx context.Context) ([]document.FrontierPoint, error) {
	own := traits.SequenceLength(s.Costs.Base, s.Shape)
	var lengths []int64
	for n := int64(frontierShortest); n <= max(own, s.Shape.Context); n *= 2 {
		lengths = append(lengths, n)
	}
	if own > 0 && !slices.Contains(lengths, own) {
		lengths = append(lengths, own)
		slices.Sort(lengths)
	}
	if !s.Affords(edgeQuestions*len(lengths), "the frontier") {
		return nil, nil
	}
	points := make([]*document.FrontierPoint, len(lengths))
	err := asking.Parallel(ctx, len(lengths), func(ctx context.Context, i int) error {
		edge, err := s.largest(ctx, atLength(lengths[i], own))
		if err != nil {
			return err
		}
		if edge.best == nil && (edge.next == nil || edge.next.Err != nil) {
			return nil // the estimator refuses this length
		}
		p := document.FrontierPoint{SequenceLength: lengths[i], LargestMicroBatch: edge.micro()}
		if edge.best != nil {
			p.DeviceBytes = edge.best.DeviceBytes()
		}
		points[i] = &p
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := []document.FrontierPoint{}
	for _, p := range points {
		if p != nil {
			out = append(out, *p)
		}
	}
	return out, nil
}

// frontiers adds what a plan says about other lengths and other models.
func (s *search) frontiers(ctx context.Context, p *document.Plan, presets []*model.Preset) (err error) {
	if p.Frontier, err = s.frontier(ctx); err != nil {
		return err
	}
	if p.Sequences, err = s.sequences(ctx); err != nil {
		return err
	}
	if p.Grid, err = s.grid(ctx, p.Frontier); err != nil {
		return err
	}
	p.LargestModel, err = s.largestModel(ctx, presets)
	return err
}

// gridMicroBatches bounds the columns of the grid: powers of two up to 64.
const gridMicroBatches = 7

// columns are the micro-batches of the grid: powers of two, up to one past the
// largest that fits anywhere.
func columns(frontier []document.FrontierPoint) []int64 {
	var largest int64
	for _, x := range frontier {
		largest = max(largest, x.LargestMicroBatch)
	}
	out := []int64{1}
	for len(out) < gridMicroBatches && out[len(out)-1] <= largest {
		out = append(out, 2*out[len(out)-1])
	}
	return out
}

// grid judges every micro-batch of a few at every sequence length of the frontier.
func (s *search) grid(ctx context.Context, frontier []document.FrontierPoint) ([]document.GridCell, error) {
	micros := columns(frontier)
	own := traits.SequenceLength(s.Costs.Base, s.Shape)
	cells := make([]*document.GridCell, len(frontier)*len(micros))
	if !s.Affords(len(cells), "the grid of sequence lengths and micro-batches") {
		return nil, nil
	}
	err := asking.Parallel(ctx, len(cells), func(ctx context.Context, i int) error {
		length, micro := frontier[i/len(micros)].SequenceLength, micros[i%len(micros)]
		j, err := s.Judge(ctx, atLength(length, own), pairing.At(micro, s.Batch.AccumulationFor(micro)))
		if err != nil || j.Result == nil {
			return err
		}
		cells[i] = &document.GridCell{SequenceLength: length, MicroBatch: micro, DeviceBytes: j.DeviceBytes(),
			Verdict: j.Fit().Verdict}
		return nil
	})
	var out []document.GridCell
	for _, c := range cells {
		if c != nil {
			out = append(out, *c)
		}
	}
	return out, err
}

// atLength is the job at another sequence length.
func atLength(length, own int64) lever.Variant {
	if length == own {
		return lever.Variant{}
	}
	return lever.NewVariant(lever.AtLength(length, own))
}

// lengthStep is the step in which the longest sequence is looked for: kernels work on tiles of 64
// tokens, and trainers pad to multiples.
const lengthStep = 64

// sequences gives the longest sequence, up to the model's context, at micro-batches in powers of two.
func (s *search) sequences(ctx context.Context) ([]document.SequencePoint, error) {
	own := traits.SequenceLength(s.Costs.Base, s.Shape)
	longest := max(own, s.Shape.Context) / lengthStep
	if longest < 1 {
		return nil, nil
	}
	if !s.Affords(edgeQuestions*gridMicroBatches, "the longest sequences") {
		return nil, nil
	}
	points := make([]document.SequencePoint, gridMicroBatches)
	err := asking.Parallel(ctx, len(points), func(ctx context.Context, i int) error {
		micro := int64(1) << i
		points[i].MicroBatch = micro
		// Bytes grow with the length, so halving finds the edge.
		for low, high := int64(1), longest; low <= high; {
			n := low + (high-low)/2
			if low == 1 && high == longest {
				n = longest // most often all of it fits, or the first try tells that it does not
			}
			j, err := s.Judge(ctx, atLength(n*lengthStep, own), pairing.At(micro, s.Batch.AccumulationFor(micro)))
			if err != nil {
				return err
			}
			if j.Fits() {
				points[i].LargestSequenceLength, points[i].DeviceBytes = n*lengthStep, j.DeviceBytes()
				low = n + 1
			} else {
				high = n - 1
			}
		}
		return nil
	})
	// After the first micro-batch at which nothing fits, nothing does.
	for i, x := range points {
		if x.LargestSequenceLength == 0 {
			points = points[:i+1]
			break
		}
	}
	return points, err
}

// modelsAsked bounds the models that are asked about, largest first: an estimate of a very deep one takes long.
const modelsAsked = 40

// statesSpread is how much less than the job's own bytes a parameter another model may take: adapters and norms are
// another share of it.
const statesSpread = 0.9

// largestModel finds the largest of some models that trains as the job does, at a micro-batch of one. Models whose
// weights, gradients and optimizer state alone are too much, as the job's own take, are not asked about.
func (s *search) largestModel(ctx context.Context, presets []*model.Preset) (*document.LargestModel, error) {
	usable := s.floor.Fit().UsableBytes
	var states int64
	for _, c := range s.floor.Result.Components {
		switch c.Name {
		case "weights", "gradients", "optimizer_state":
			states += c.Bytes
		}
	}
	perParameter := float64(states) / float64(max(1, s.floor.Result.Model.Parameters))
	var fitting []*model.Preset
	for _, p := range presets {
		if float64(p.ParametersTotal)*perParameter*statesSpread <= float64(usable) {
			fitting = append(fitting, p)
		}
	}
	slices.SortStableFunc(fitting, func(a, b *model.Preset) int {
		return cmp.Compare(b.ParametersTotal, a.ParametersTotal)
	})
	length := traits.SequenceLength(s.Costs.Base, s.Shape)
	for asked, p := range fitting {
		if !s.Affords(1, "the largest model") {
			return nil, nil
		}
		if err := ctx.Err(); err != nil || asked == modelsAsked {
			return nil, err
		}
		in := s.Costs.Base
		in.Job.Model, in.Preset = estimator.Model{Preset: p.ID}, p
		in.Job.Training.MicroBatch, in.Job.Training.GradientAccumulation = 1, s.Batch.AccumulationFor(1)
		if length > 0 {
			in.Job.Training.SequenceLength = length
			if p.MaxPositions > 0 {
				in.Job.Training.SequenceLength = min(length, p.MaxPositions)
			}
		}
		r, err := s.Costs.Ask(in)
		if err != nil && !asking.Refusal(err) {
			return nil, err
		}
		if err == nil && (asking.Answer{Result: r}).Fits() {
			return &document.LargestModel{Preset: p.ID, Parameters: r.Model.Parameters, MicroBatch: 1,
				SequenceLength: in.Job.Training.SequenceLength, DeviceBytes: r.Peak.DeviceBytes}, nil
		}
	}
	return nil, nil
}
