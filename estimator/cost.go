package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/hybrids"
	"github.com/vramplan/vramplan/estimator/model/pictures"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

// Cost is what an answer takes at most.
type Cost struct {
	// Requests are those of the allocator that are recorded and played, one for each kind of hardware, each run and
	// each search for the smallest limit; ten to twenty million take a second.
	Requests int64
	// Bytes are those of the workspace.
	Bytes int64
}

// What recording and playing takes at most, read off 1,500 random jobs of all families (TestCostBounds draws others)
// with half as much again.
const (
	adaptedPerLinear                  = 250       // events of a recorded linear layer's adapter and micro-step
	eventsPerLayer, adaptedPerLayer   = 500, 1800 // events of a layer and micro-step; with adapters
	eventsPerExpert, adaptedPerExpert = 130, 450  // of an expert
	// of embeddings, head and loss; with adapters, which a head whose loss is computed in pieces runs in each of them
	eventsOutside, adaptedOutside   = 1000, 2000
	eventsPerChunk, adaptedPerChunk = 30, 100 // of a loss in pieces; with an adapter on the head
	// of a layer with a gated delta net besides, and of each chunk of tokens in it
	eventsPerDelta, eventsPerDeltaChunk = 700, 280
	eventsPerRing                       = 60 // of a layer's attention, for each GPU that shares its sequences
	// of a layer of a pipeline's stage and micro-batch, and of what is outside of them
	eventsPerStageLayer, eventsOutsideStage = 350, 250
	// of a picture, and of a window or a picture within which a layer attends by itself
	eventsPerPicture, eventsPerPart = 160, 30
	eventsPerTile                   = 12  // of a head that trl's trainers fuse with the loss
	bytesPerEvent                   = 170 // that is recorded
	bytesPerRequest                 = 72  // that is played
	bytesPerStand                   = 160 // that is kept while the smallest limit is looked for
	// that is allocated, with what the optimizer allocates for it; none has less than three events
	bytesPerParameter                 = 100
	bytesAnyway                       = 1 << 20
	tensorsPerLayer, tensorsPerExpert = 48, 6 // parameters and buffers; four times as many with adapters
	tensorsOutside                    = 64
	// plays that the search for the smallest limit takes: nine for 200 half percents, which fall with the limit
	mostTries = 10
)

// CostOf bounds what [Estimate] takes for a job, from its document alone: nothing is recorded. Of bytes the bound is up
// to 12 times what jobs take (TestCostIsTight), of requests up to some hundred times: it has every micro-step, most of
// which are left out as soon as the allocator goes round, and every search for a limit. Errors are those of Estimate.
func CostOf(in Input) (Cost, error) {
	kinds, rank, _ := kindsOfRanks(&in.Job.Training)
	if kinds == 1 {
		return costOf(in)
	}
	var all Cost
	for i := range kinds { // the first says whether there are as many as are modelled
		c, err := costOf(in.ofRank(rank(i)))
		if err != nil {
			return Cost{}, err
		}
		all.Requests += c.Requests // which are played one rank after the other
		all.Bytes = max(all.Bytes, c.Bytes)
	}
	return all, nil
}

// costOf is the bound of an answer about one GPU.
func costOf(in Input) (Cost, error) {
	r, err := resolve(&in)
	if err != nil {
		return Cost{}, err
	}
	return playerOf(r, &in, nil).cost(max(len(in.GPUs), 1)), nil
}

func (r *player) cost(kinds int) Cost {
	a := &r.arch
	perLayer, perExpert, outside := int64(eventsPerLayer), int64(eventsPerExpert), int64(eventsOutside)
	if a.LoRA != nil {
		perLayer, perExpert, outside = adaptedPerLayer, adaptedPerExpert, adaptedOutside
	}
	if rec := recordings.Recording(a); rec != nil {
		perLayer, outside = rec.Events()
		outside += eventsOutside
		if a.LoRA != nil {
			perLayer += adaptedPerLinear * int64(rec.MostLinears())
			outside += adaptedPerLinear * int64(len(rec.Linears))
		}
	}
	perLayer += eventsPerRing * r.ring
	if chunks := hybrids.DeltaChunks(a, r.shape.Tokens); chunks > 0 {
		perLayer += eventsPerDelta
		if !r.recipe.Kernels.DeltaRule {
			perLayer += eventsPerDeltaChunk * chunks
		}
	}
	if r.recipe.Loss.Kind == step.LossFusedLinear {
		outside += eventsPerChunk * step.FusedLinearPieces(max(r.shape.N(), 1), a.Vocabulary, max(a.HeadWidth(), 1))
	}
	if r.recipe.Loss.Kind == step.LossChunked || r.recipe.Loss.Kind == step.LossChunkedWhole {
		perChunk := int64(eventsPerChunk)
		if a.LoRA != nil {
			perChunk = adaptedPerChunk
		}
		outside += perChunk * r.recipe.Loss.Pieces(r.shape.N())
	}
	if r.recipe.Objective != nil {
		outside += eventsPerTile * objective.Tiles(max(r.sequences, 1)*r.shape.N(), a.Vocabulary)
	}
	if o, ok := r.recipe.Objective.(interface{ Passes() int64 }); ok {
		perLayer *= o.Passes()
	}
	if o, ok := r.recipe.Objective.(interface{ Forwards() int64 }); ok {
		times := 2 + o.Forwards() // in halves: one is backward's
		perLayer, perExpert, outside = perLayer*times/2, perExpert*times/2, outside*times/2
	}
	outside += eventsPerPicture*r.pictures + eventsPerPart*r.pictureParts
	if p, ok := r.recipe.Spread().(step.Pipelined); ok { // what is recorded is the whole optimizer step
		micro := p.MicroBatches()
		perLayer = max(perLayer, eventsPerStageLayer*micro)
		perExpert, outside = perExpert*micro, outside+eventsOutsideStage*micro
	}
	experts := a.Experts()
	units, recordedUnits, recordedLayers := recordedLayers(a, r.recipe.Compile ||
		r.recipe.Spread().Irregular() || unfolds(r.recipe.Objective))
	recordedExperts := step.RecordedExperts(experts)
	every := r.recorded(r.recipe, false).EveryExpert || a.UnevenExperts()
	if every {
		recordedExperts = experts
	}
	layers := a.Layers + a.Decoder
	events := func(layers, experts int64) int64 { return outside + layers*(perLayer+experts*perExpert) }
	recorded := events(recordedLayers+a.Decoder, recordedExperts)
	whole := events(layers, experts)

	perStep := int64(3)
	if r.recipe.Accumulation > 1 {
		perStep = 2
	}
	// Played whole, as far as that is done, or in part.
	exact := min(whole, replay.ExactRequests/(perStep*min(r.recipe.Accumulation, 2))+outside)
	if units <= recordedUnits+1 && recordedExperts == experts {
		exact = whole // there is nothing to leave out
	}
	perUnit := (recordedLayers + recordedUnits - 1) / max(recordedUnits, 1)
	least := events(min((recordedUnits+1)*perUnit, layers), min(experts, replay.LeastSampledExperts+4))
	if every {
		least = events(min((recordedUnits+1)*perUnit, layers), experts)
	}
	sampled := min(whole, max(replay.MostSampledRequests/replay.SampledSteps, least))
	played := max(exact, sampled)

	tensors := tensorsPerLayer + tensorsPerExpert*experts
	if a.LoRA != nil {
		tensors *= 4
	}
	parameters := tensorsOutside + layers*tensors + pictures.TensorsBeside(a)
	if rec := recordings.Recording(a); rec != nil {
		const perLinear = 3 // of an adapter
		parameters = int64(len(rec.Parameters) + perLinear*len(rec.Linears))
		for i := range rec.Layers {
			kind := &rec.Kinds[rec.KindOf(i)]
			parameters += int64(len(kind.Parameters) + perLinear*len(kind.Linears))
		}
	}
	pair, most := perStep*min(r.recipe.Accumulation, 2), perStep*min(r.recipe.Accumulation, 64)
	searched := int64(0)
	if !r.expand {
		searched = min(whole, replay.SearchedRequests/pair+outside)
	}
	requests := recorded + min(exact*most, max(replay.MostRequests, exact*perStep)) +
		mostTries*min(searched*most, replay.MostRequests) +
		4*replay.SampledSteps*replay.SampledMicroSteps*sampled
	const perParameter = 6 // in an update
	requests += perParameter * (perStep*min(parameters, exact) + mostTries*perStep*min(parameters, searched) +
		4*replay.SampledSteps*min(parameters, sampled))
	if r.recipe.Spread().Rehearses() || r.exchanges {
		requests += recorded
	}
	cost := Cost{
		Requests: int64(kinds) * requests,
		Bytes: bytesAnyway + recorded*bytesPerEvent + played*bytesPerRequest + searched*bytesPerStand +
			min(parameters, played/3)*bytesPerParameter,
	}
	if r.evaluation != nil {
		cost.Bytes, cost.Requests = 2*cost.Bytes, 2*cost.Requests
	}
	return cost
}

// tooDear says that an answer takes more than it may.
func (r *player) tooDear() error { return tooDear(r.in.MostRequests, r.recipe.Accumulation) }

func tooDear(most, accumulation int64) error {
	var errs invalid.List
	less := "a smaller gradient_accumulation"
	if accumulation <= 1 {
		less = "fewer layers or experts"
	}
	errs.Add("/training", "too_large", "an answer takes more than %s requests of the replayed allocator, which is as "+
		"many as it may take here; fewer cards in gpus and %s need less",
		result.Grouped(most), less)
	return errs.Err()
}
