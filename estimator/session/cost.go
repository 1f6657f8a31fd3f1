package session

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/hybrids"
	"github.com/vramplan/vramplan/estimator/model/pictures"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/objective"
)

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

// Cost bounds what an answer about so many kinds of cards takes.
func (r *Player) Cost(kinds int) resolved.Cost {
	a := &r.Arch
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
	perLayer += eventsPerRing * r.Ring
	if chunks := hybrids.DeltaChunks(a, r.Shape.Tokens); chunks > 0 {
		perLayer += eventsPerDelta
		if !r.Recipe.Kernels.DeltaRule {
			perLayer += eventsPerDeltaChunk * chunks
		}
	}
	if r.Recipe.Loss.Kind == step.LossFusedLinear {
		outside += eventsPerChunk * step.FusedLinearPieces(max(r.Shape.N(), 1), a.Vocabulary, max(a.HeadWidth(), 1))
	}
	if r.Recipe.Loss.Kind == step.LossChunked || r.Recipe.Loss.Kind == step.LossChunkedWhole {
		perChunk := int64(eventsPerChunk)
		if a.LoRA != nil {
			perChunk = adaptedPerChunk
		}
		outside += perChunk * r.Recipe.Loss.Pieces(r.Shape.N())
	}
	if r.Recipe.Objective != nil {
		outside += eventsPerTile * objective.Tiles(max(r.Sequences, 1)*r.Shape.N(), a.Vocabulary)
	}
	if o, ok := r.Recipe.Objective.(interface{ Passes() int64 }); ok {
		perLayer *= o.Passes()
	}
	if o, ok := r.Recipe.Objective.(interface{ Forwards() int64 }); ok {
		times := 2 + o.Forwards() // in halves: one is backward's
		perLayer, perExpert, outside = perLayer*times/2, perExpert*times/2, outside*times/2
	}
	outside += eventsPerPicture*r.Pictures + eventsPerPart*r.PictureParts
	if p, ok := r.Recipe.Spread().(step.Pipelined); ok { // what is recorded is the whole optimizer step
		micro := p.MicroBatches()
		perLayer = max(perLayer, eventsPerStageLayer*micro)
		perExpert, outside = perExpert*micro, outside+eventsOutsideStage*micro
	}
	experts := a.Experts()
	units, recordedUnits, recordedLayers := resolved.RecordedLayers(a, r.Recipe.Compile ||
		r.Recipe.Spread().Irregular() || unfolds(r.Recipe.Objective))
	recordedExperts := step.RecordedExperts(experts)
	every := r.recorded(r.Recipe, false).EveryExpert || a.UnevenExperts()
	if every {
		recordedExperts = experts
	}
	layers := a.Layers + a.Decoder
	events := func(layers, experts int64) int64 { return outside + layers*(perLayer+experts*perExpert) }
	recorded := events(recordedLayers+a.Decoder, recordedExperts)
	whole := events(layers, experts)

	perStep := int64(3)
	if r.Recipe.Accumulation > 1 {
		perStep = 2
	}
	// Played whole, as far as that is done, or in part.
	exact := min(whole, replay.ExactRequests/(perStep*min(r.Recipe.Accumulation, 2))+outside)
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
	pair, most := perStep*min(r.Recipe.Accumulation, 2), perStep*min(r.Recipe.Accumulation, 64)
	searched := int64(0)
	if !r.Allocator.Expandable {
		searched = min(whole, replay.SearchedRequests/pair+outside)
	}
	requests := recorded + min(exact*most, max(replay.MostRequests, exact*perStep)) +
		mostTries*min(searched*most, replay.MostRequests) +
		4*replay.SampledSteps*replay.SampledMicroSteps*sampled
	const perParameter = 6 // in an update
	requests += perParameter * (perStep*min(parameters, exact) + mostTries*perStep*min(parameters, searched) +
		4*replay.SampledSteps*min(parameters, sampled))
	if r.Recipe.Spread().Rehearses() || r.Exchanges {
		requests += recorded
	}
	cost := resolved.Cost{
		Requests: int64(kinds) * requests,
		Bytes: bytesAnyway + recorded*bytesPerEvent + played*bytesPerRequest + searched*bytesPerStand +
			min(parameters, played/3)*bytesPerParameter,
	}
	if r.Evaluation != nil {
		cost.Bytes, cost.Requests = 2*cost.Bytes, 2*cost.Requests
	}
	return cost
}

// tooDear says that an answer takes more than it may.
func (r *Player) tooDear() error { return TooDear(r.in.MostRequests, r.Recipe.Accumulation) }

// TooDear is the error of an answer that takes more than it may.
func TooDear(most, accumulation int64) error {
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
