package planner

import "github.com/vramplan/vramplan/estimator"

// Request asks for a plan.
type Request struct {
	// Input is the job as it runs today, its names resolved. The plan is made for
	// the first of its GPUs.
	Input estimator.Input
	// EffectiveBatch counts sequences over all GPUs and accumulation steps; 0
	// means what the job gives today.
	EffectiveBatch int64
	// Catalog holds the cards among which SmallestGPUs looks.
	Catalog []estimator.GPU
	// Frontier asks for the largest micro-batch by sequence length.
	Frontier bool
}

// Plan is the answer. Where the job has no micro-batch, Today is null and the
// largest pair takes its place as what step times and savings are relative to.
type Plan struct {
	Versions       estimator.Versions  `json:"versions"`
	Model          estimator.ModelInfo `json:"model"`
	SequenceLength int64               `json:"sequence_length,omitempty"`
	EffectiveBatch int64               `json:"effective_batch"`
	// DataParallelGPUs is the number of GPUs that the effective batch is spread over.
	DataParallelGPUs int64  `json:"data_parallel_gpus"`
	GPU              string `json:"gpu"`
	UsableBytes      int64  `json:"usable_bytes"`

	Today *Today `json:"today"`
	// Pairs are all exact pairs in falling micro-batch, fitting or not.
	Pairs []Pair `json:"pairs"`
	// Recommended is the pair with the best expected step time among those whose
	// verdict is "fits"; null when there is none.
	Recommended *Choice `json:"recommended"`
	// Safest is the fastest pair that leaves a quarter of the card free.
	Safest *Choice `json:"safest"`
	// LargestMicroBatch is the largest that fits, whether or not it divides the
	// effective batch; 0 when not even one sequence does.
	LargestMicroBatch int64    `json:"largest_micro_batch"`
	Options           []Option `json:"options"`
	// FloorBytes is what the job as it stands takes at a micro-batch of one.
	FloorBytes int64 `json:"floor_bytes"`
	// SmallestGPUs are the smallest cards of the catalog on which the job as it is
	// today fits, smallest first.
	SmallestGPUs []string         `json:"smallest_gpus"`
	Notes        []estimator.Note `json:"notes"`
	Frontier     []FrontierPoint  `json:"frontier,omitempty"`
}

// Today is the job as the user runs it.
type Today struct {
	MicroBatch           int64             `json:"micro_batch"`
	GradientAccumulation int64             `json:"gradient_accumulation"`
	EffectiveBatch       int64             `json:"effective_batch"`
	DeviceBytes          int64             `json:"device_bytes"`
	HighBytes            int64             `json:"high_bytes"`
	HeadroomBytes        int64             `json:"headroom_bytes"`
	Verdict              estimator.Verdict `json:"verdict"`
}

// Choice names a pair.
type Choice struct {
	MicroBatch           int64 `json:"micro_batch"`
	GradientAccumulation int64 `json:"gradient_accumulation"`
}

// Pair is one way to reach the effective batch, with the bytes that an estimate
// of it gives.
type Pair struct {
	MicroBatch           int64             `json:"micro_batch"`
	GradientAccumulation int64             `json:"gradient_accumulation"`
	EffectiveBatch       int64             `json:"effective_batch"`
	DeviceBytes          int64             `json:"device_bytes"`
	HighBytes            int64             `json:"high_bytes"`
	HeadroomBytes        int64             `json:"headroom_bytes"`
	Verdict              estimator.Verdict `json:"verdict"`
	RelativeStepTime     float64           `json:"relative_step_time"`
}

// Option is one way out, or one way to use the room that is left.
type Option struct {
	Rank  int    `json:"rank"`
	Title string `json:"title"`
	// Changes are fields of the job's training object with their new values, ready
	// to be set; "model" and "gpus", where present, replace the job's own.
	Changes map[string]any `json:"changes"`
	// Settings say the same in the words of the user's own tool.
	Settings             []string `json:"settings"`
	MicroBatch           int64    `json:"micro_batch"`
	GradientAccumulation int64    `json:"gradient_accumulation"`
	EffectiveBatch       int64    `json:"effective_batch"`
	// DeviationPercent is how far the effective batch is from the one asked for.
	DeviationPercent float64 `json:"deviation_percent,omitempty"`
	// SavesBytes is today's device figure less this one; below zero where the
	// option uses more of the card.
	SavesBytes       int64             `json:"saves_bytes"`
	DeviceBytes      int64             `json:"device_bytes"`
	HighBytes        int64             `json:"high_bytes"`
	Verdict          estimator.Verdict `json:"verdict"`
	RelativeStepTime StepTime          `json:"relative_step_time"`
	// TrainingEffect is "none" where the result of training stays the same.
	TrainingEffect  string `json:"training_effect"`
	ChangesTraining bool   `json:"changes_training"`
	Recommendation  string `json:"recommendation"`
}

// StepTime is the time that the same number of tokens takes, relative to today.
type StepTime struct {
	Low      float64 `json:"low"`
	Expected float64 `json:"expected"`
	High     float64 `json:"high"`
	// Basis is "model": computed, not measured.
	Basis string `json:"basis"`
}

// FrontierPoint is the largest micro-batch that fits at one sequence length.
type FrontierPoint struct {
	SequenceLength    int64 `json:"sequence_length"`
	LargestMicroBatch int64 `json:"largest_micro_batch"`
	DeviceBytes       int64 `json:"device_bytes"`
}
