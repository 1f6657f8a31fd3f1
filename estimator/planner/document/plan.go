package document

import (
	"cmp"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// Plan is the answer. LowBytes are absent throughout where nobody asked for them, or where the job takes so long to
// replay that they were not looked for; then a note says so. Where the job has no micro-batch, Today is null and the
// largest pair that fits (the smallest, where none does) takes its place as what step times and savings are relative
// to.
type Plan struct {
	Versions       estimator.Versions  `json:"versions"`
	Model          estimator.ModelInfo `json:"model"`
	SequenceLength int64               `json:"sequence_length,omitempty"`
	EffectiveBatch int64               `json:"effective_batch"`
	// DataParallelGPUs is the number of GPUs that the effective batch is spread over.
	DataParallelGPUs int64 `json:"data_parallel_gpus"`
	// WorldSize is how many GPUs the job runs on in all, where several of them train on the same sequences.
	WorldSize   int64  `json:"world_size,omitempty"`
	GPU         string `json:"gpu"`
	UsableBytes int64  `json:"usable_bytes"`

	// StepTimeBasis is what the relative step times of pairs rest on: "model", or "calibrated" by measured steps.
	StepTimeBasis string `json:"step_time_basis"`

	Today *Today `json:"today"`
	// Pairs are all exact pairs in falling micro-batch, fitting or not.
	Pairs []Pair `json:"pairs"`
	// Recommended is the pair with the best expected step time among those whose verdict is "fits"; where the job says
	// that the card drives a display it is BesideDisplay. It is null when there is none. The first option is this pair,
	// and the only "best choice".
	Recommended *pairing.Choice `json:"recommended"`
	// BesideDisplay is the fastest pair of those that leave room for a display (estimator.DisplayBytes), or where none
	// of them leaves so much the one that leaves most. It is missing where the card drives none, by what the job says
	// or else by its line.
	BesideDisplay *pairing.Choice `json:"beside_display,omitempty"`
	// Safest is the fastest pair that leaves a quarter of the card free.
	Safest *pairing.Choice `json:"safest"`
	// LargestMicroBatch is the largest that fits, whether or not it divides the effective batch, with the fewest
	// micro-steps that reach it; 0 when not even one sequence does.
	LargestMicroBatch int64    `json:"largest_micro_batch"`
	Options           []Option `json:"options"`
	// FloorBytes is what the job as it stands takes at a micro-batch of one, or the least that its trainer takes.
	FloorBytes int64 `json:"floor_bytes"`
	// FloorAtLeast says of FloorBytes what AtLeast says of a pair's bytes.
	FloorAtLeast bool `json:"floor_at_least,omitempty"`
	// SmallestGPUs are the smallest cards of the catalog on which the job as it is
	// today fits, smallest first.
	SmallestGPUs []string `json:"smallest_gpus"`
	// SmallestSlices are the smallest MIG slices on which it does, of any card of the catalog.
	SmallestSlices []string `json:"smallest_slices"`
	// FewestGPUs says on how many of the plan's cards the job trains when FSDP, or ZeRO-3 where DeepSpeed trains it,
	// deals it out, where no pair fits on its own.
	FewestGPUs *FewestGPUs `json:"fewest_gpus,omitempty"`
	// Layouts rank the ways to put the job on the GPUs of a cluster, where the request names one. Then Pairs are those
	// of the first layout, FewestGPUs are of any layout, FloorBytes is what the leanest of the first kind takes, and
	// Options, SmallestGPUs and SmallestSlices are empty.
	Layouts *Layouts         `json:"layouts,omitempty"`
	Notes   []estimator.Note `json:"notes"`
	// GPUs plan the same batch for each card of the job, where it names several.
	GPUs []GPUPlan `json:"gpus,omitempty"`
	// CostsBeside is the card on which the reference of the relative costs runs, where cards of the job have prices.
	CostsBeside string `json:"costs_beside,omitempty"`

	// Frontier is the largest micro-batch by sequence length, Sequences the longest
	// sequence by micro-batch, and Grid what every pair of the two takes.
	Frontier  []FrontierPoint `json:"frontier,omitempty"`
	Sequences []SequencePoint `json:"sequences,omitempty"`
	Grid      []GridCell      `json:"grid,omitempty"`
	// LargestModel is the largest model of the catalog, of the kind of the job's own,
	// that trains on the card in the same way at a micro-batch of one.
	LargestModel *LargestModel `json:"largest_model,omitempty"`
	// Patch is the change of the user's own files, where the request had them and the job does not fit as it is.
	Patch *Patch `json:"patch,omitempty"`
}

// Patch is the first way out of a plan that files of other tools can say, as a change of them.
type Patch struct {
	// Option is its title; empty where none can be said. Without Diff and Command it is one that Words say.
	Option      string `json:"option,omitempty"`
	DeviceBytes int64  `json:"device_bytes,omitempty"`
	// Diff is a unified diff that git apply takes; Command the command line with its changes, where one was given.
	Diff    string `json:"diff,omitempty"`
	Command string `json:"command,omitempty"`
	// Words are those that a person has to change for the option, each with its file and line, where no patch of the
	// files was proven to mean it.
	Words []string `json:"words,omitempty"`
	// LeftOut are better ways out that the files cannot say, with the reasons.
	LeftOut []string `json:"left_out,omitempty"`
}

// FewestGPUs is a job dealt out to several cards at the same effective batch.
type FewestGPUs struct {
	GPUs int64 `json:"gpus"`
	// Changes are fields of the job's training object with their new values.
	Changes              map[string]any `json:"changes"`
	MicroBatch           int64          `json:"micro_batch"`
	GradientAccumulation int64          `json:"gradient_accumulation"`
	// DeviceBytes and its bounds are those of each card.
	DeviceBytes int64 `json:"device_bytes"`
	LowBytes    int64 `json:"low_bytes,omitempty"`
	HighBytes   int64 `json:"high_bytes"`
	// Layout names it, and EffectiveBatch is that of it, in a plan for a cluster: more than the plan's where the
	// cluster is too small and more GPUs train as many sequences each.
	Layout         string `json:"layout,omitempty"`
	EffectiveBatch int64  `json:"effective_batch,omitempty"`
}

// dealt says what deals the job out: changes hold a Distributed, or what JSON makes of it.
func (f *FewestGPUs) dealt() string {
	data := ""
	switch d := f.Changes["distributed"].(type) {
	case estimator.Distributed:
		data = d.Data
	case map[string]any:
		data, _ = d["data"].(string)
	}
	return cmp.Or(traits.Dealt(data), traits.Dealt("fsdp"))
}

// GPUPlan is the plan for one of several cards.
type GPUPlan struct {
	GPU         string `json:"gpu"`
	UsableBytes int64  `json:"usable_bytes"`
	// Verdict is that of the job as it is today; of its smallest pair where the job has no micro-batch.
	Verdict estimator.Verdict `json:"verdict"`
	// Recommended is the fastest pair that fits on this card; null where none does.
	Recommended *pairing.Choice `json:"recommended"`
	DeviceBytes int64           `json:"device_bytes"`
	// RelativeStepTime is that of the recommended pair on this card beside the reference on the plan's own card.
	RelativeStepTime float64 `json:"relative_step_time"`
	// PricePerHour is what the job says of the card.
	PricePerHour float64 `json:"price_per_hour,omitempty"`
	// RelativeCost is what the same training costs with the recommended pair; missing where the card has no price, or
	// where its speed is not known. The cards that have one stand first, the cheapest at the front.
	RelativeCost *Cost `json:"relative_cost,omitempty"`
}

// ByCost orders cards: those with a cost first, by it and then by time.
func ByCost(a, b GPUPlan) int {
	switch {
	case a.RelativeCost == nil && b.RelativeCost == nil:
		return 0
	case a.RelativeCost == nil:
		return 1
	case b.RelativeCost == nil:
		return -1
	}
	return cmp.Or(cmp.Compare(a.RelativeCost.Expected, b.RelativeCost.Expected),
		cmp.Compare(a.RelativeStepTime, b.RelativeStepTime), cmp.Compare(a.GPU, b.GPU))
}

// Cost is the price of a card an hour times the time that the same number of tokens takes on it, relative to the
// reference on the card of CostsBeside: the plan's own, or else the first of the job's that has a price and a known
// speed. Low and High are
// what the model of time leaves open.
type Cost struct {
	Low      float64 `json:"low"`
	Expected float64 `json:"expected"`
	High     float64 `json:"high"`
}

// Today is the job as the user runs it.
type Today struct {
	MicroBatch           int64             `json:"micro_batch"`
	GradientAccumulation int64             `json:"gradient_accumulation"`
	EffectiveBatch       int64             `json:"effective_batch"`
	DeviceBytes          int64             `json:"device_bytes"`
	LowBytes             int64             `json:"low_bytes,omitempty"`
	HighBytes            int64             `json:"high_bytes"`
	HeadroomBytes        int64             `json:"headroom_bytes"`
	Verdict              estimator.Verdict `json:"verdict"`
	AtLeast              bool              `json:"at_least,omitempty"`
}

// Pair is one way to reach the effective batch, with the bytes that an estimate
// of it gives.
type Pair struct {
	MicroBatch           int64             `json:"micro_batch"`
	GradientAccumulation int64             `json:"gradient_accumulation"`
	EffectiveBatch       int64             `json:"effective_batch"`
	DeviceBytes          int64             `json:"device_bytes"`
	LowBytes             int64             `json:"low_bytes,omitempty"`
	HighBytes            int64             `json:"high_bytes"`
	HeadroomBytes        int64             `json:"headroom_bytes"`
	Verdict              estimator.Verdict `json:"verdict"`
	// AtLeast says that the pair cannot fit, and that its bytes, in a brief plan, are what is alive at the peak and
	// what lies outside the allocator: it takes no less.
	AtLeast          bool    `json:"at_least,omitempty"`
	RelativeStepTime float64 `json:"relative_step_time"`
}

// Option is one way out, or one way to use the room that is left.
type Option struct {
	Rank  int    `json:"rank"`
	Title string `json:"title"`
	// Changes are fields of the job's training object with their new values, ready
	// to be set; "model" and "gpus", where present, replace the job's own.
	Changes map[string]any `json:"changes"`
	// Settings say the same in the words of the user's own tool.
	Settings []string `json:"settings"`
	// Library is whose code the settings turn on, where they need one; without it they may not run.
	Library              string `json:"library,omitempty"`
	MicroBatch           int64  `json:"micro_batch"`
	GradientAccumulation int64  `json:"gradient_accumulation"`
	// DataParallelGPUs is the number of GPUs that the option spreads the effective batch over.
	DataParallelGPUs int64 `json:"data_parallel_gpus"`
	EffectiveBatch   int64 `json:"effective_batch"`
	// DeviationPercent is how far the effective batch is from the one asked for.
	DeviationPercent float64 `json:"deviation_percent,omitempty"`
	// SavesBytes is the device figure of today's job less this one; below zero where the
	// option uses more of the card, and left out where its bytes are the least that it takes.
	SavesBytes  *int64            `json:"saves_bytes,omitempty"`
	DeviceBytes int64             `json:"device_bytes"`
	LowBytes    int64             `json:"low_bytes,omitempty"`
	HighBytes   int64             `json:"high_bytes"`
	Verdict     estimator.Verdict `json:"verdict"`
	// AtLeast is that of a pair.
	AtLeast          bool     `json:"at_least,omitempty"`
	RelativeStepTime StepTime `json:"relative_step_time"`
	// RelativeCost is that of GPUPlan, of an option on another card that has a price.
	RelativeCost *Cost `json:"relative_cost,omitempty"`
	// RelativeGPUTime is the expected step time times the GPUs that it takes, relative to today: what the option costs
	// where GPUs are paid by the hour.
	RelativeGPUTime float64 `json:"relative_gpu_time"`
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
	// Basis is "model", which is computed and not measured, or "calibrated": the model fitted to measured steps.
	Basis string `json:"basis"`
}

// SequencePoint is the longest sequence that fits at one micro-batch, in steps of 64 tokens.
type SequencePoint struct {
	MicroBatch            int64 `json:"micro_batch"`
	LargestSequenceLength int64 `json:"largest_sequence_length"`
	DeviceBytes           int64 `json:"device_bytes"`
}

// GridCell is what one micro-batch takes at one sequence length.
type GridCell struct {
	SequenceLength int64             `json:"sequence_length"`
	MicroBatch     int64             `json:"micro_batch"`
	DeviceBytes    int64             `json:"device_bytes"`
	Verdict        estimator.Verdict `json:"verdict"`
}

// LargestModel is a model of the catalog and what it takes.
type LargestModel struct {
	Preset         string `json:"preset"`
	Parameters     int64  `json:"parameters"`
	MicroBatch     int64  `json:"micro_batch"`
	SequenceLength int64  `json:"sequence_length"`
	DeviceBytes    int64  `json:"device_bytes"`
}

// FrontierPoint is the largest micro-batch that fits at one sequence length.
type FrontierPoint struct {
	SequenceLength    int64 `json:"sequence_length"`
	LargestMicroBatch int64 `json:"largest_micro_batch"`
	DeviceBytes       int64 `json:"device_bytes"`
}
