package result

// Result is the answer to one job.
type Result struct {
	Versions Versions  `json:"versions"`
	Model    ModelInfo `json:"model"`
	// Assumed is how the job was taken to train, defaults included.
	Assumed    *Assumed    `json:"assumed,omitempty"`
	Peak       Peak        `json:"peak"`
	Components []Component `json:"components"`
	Phases     []Phase     `json:"phases"`
	GPUs       []GPUFit    `json:"gpus"`
	Notes      []Note      `json:"notes"`
	// Doubts are why low_bytes and high_bytes lie where they do.
	Doubts []DoubtSource `json:"doubts"`

	// Ranks are the GPUs that may hold most where they do not all hold the same; of the fullest is everything else. It
	// is left out where the job names a GPU.
	Ranks []RankPeak `json:"ranks,omitempty"`

	Timeline []TimelineEvent `json:"timeline,omitempty"`
	Tensors  []Tensor        `json:"tensors,omitempty"`

	// Played is how much work the answer takes where nothing of it is known: the requests that a micro-step makes of
	// the allocator, once for every run. It depends on the question alone, not on the machine or on what was asked
	// before.
	Played int64 `json:"-"`
	// Requests are those that a micro-step makes of the allocator, played or not.
	Requests int64 `json:"-"`
	// AtLeast says that the allocator was not played: its figures are what is alive at the peak, and the device figure
	// and its bounds lie on or below those of an estimate.
	AtLeast bool `json:"-"`
	// AliveBytes is what is alive at the peak, whether the allocator was played or not: AllocatedBytes has the unused
	// ends of blocks besides where it was.
	AliveBytes int64 `json:"-"`
}

// DoubtSource is one reason why a real run may hold fewer or more bytes than device_bytes. Of the reasons that concern
// the allocator the widest counts on each side; the context's is independent of it.
type DoubtSource struct {
	Source     string `json:"source"`
	BelowBytes int64  `json:"below_bytes"`
	AboveBytes int64  `json:"above_bytes"`
	How        string `json:"how"`
}

// Versions names everything that decides the bytes of an answer: the same
// request with the same versions gives the same bytes.
type Versions struct {
	Estimator   string `json:"estimator"`
	Reference   string `json:"reference"`
	Catalog     string `json:"catalog,omitempty"`
	Calibration string `json:"calibration"`
	// ProvenOn is the set of releases, as GET /v1/releases names it, whose traces show that the replay of this family
	// is exact; empty where none does for the job's releases.
	ProvenOn string `json:"proven_on,omitempty"`
}

// ModelInfo says what was understood of the model.
type ModelInfo struct {
	Name                string `json:"name"`
	Family              string `json:"family"`
	Parameters          int64  `json:"parameters"`
	TrainableParameters int64  `json:"trainable_parameters"`
}

// Peak is the largest moment of the job, in the three numbers that a user can
// see: allocated (torch.cuda.max_memory_allocated), reserved
// (max_memory_reserved) and device (the process in nvidia-smi).
type Peak struct {
	Phase     string `json:"phase"`
	MicroStep *int64 `json:"micro_step"`
	Where     string `json:"where"`

	AllocatedBytes int64 `json:"allocated_bytes"`
	ReservedBytes  int64 `json:"reserved_bytes"`
	DeviceBytes    int64 `json:"device_bytes"`
	LowBytes       int64 `json:"low_bytes"`
	HighBytes      int64 `json:"high_bytes"`
	// MinimumLimitBytes is the least that the caching allocator needs to get through.
	MinimumLimitBytes int64 `json:"minimum_limit_bytes"`
}

// Component is what one kind of tensor holds at the peak. The components of a
// Result add up to Peak.DeviceBytes.
type Component struct {
	Name  string  `json:"name"`
	Bytes int64   `json:"bytes"`
	Share float64 `json:"share"`
	How   string  `json:"how,omitempty"`
	Parts []Part  `json:"parts,omitempty"`
}

// Part is a share of a component, by the kind of module that made it.
type Part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Phase is the largest allocated figure within one phase of a step, or of what a run does besides its steps.
type Phase struct {
	Name           string `json:"name"`
	AllocatedBytes int64  `json:"allocated_bytes"`
	// InJob says that this job comes through it: because it says so, or because its framework does so where it says
	// nothing. What it does not come through is shown and counts in no verdict.
	InJob bool `json:"in_job"`
	// AtLeast says that the figure is the least that the phase holds: what comes on top of it no trace has shown.
	AtLeast bool `json:"at_least,omitempty"`
	// How says what it is made of, for what a run does besides its steps.
	How string `json:"how,omitempty"`
}

// GPUFit is the judgement of one card.
type GPUFit struct {
	GPU           string  `json:"gpu"`
	UsableBytes   int64   `json:"usable_bytes"`
	HeadroomBytes int64   `json:"headroom_bytes"`
	Verdict       Verdict `json:"verdict"`
	// Probability that the job fits.
	Probability float64 `json:"probability"`
	// DeviceBytes is the process in nvidia-smi on a card that has less than Peak.DeviceBytes and on which the job gets
	// through all the same, because PyTorch's allocator gives back what it holds in reserve when the card is full. Left
	// out elsewhere, and where many jobs are judged.
	DeviceBytes int64 `json:"device_bytes,omitempty"`
}

// Verdict is whether a job fits on a card.
type Verdict string

// The verdicts, from high_bytes, device_bytes and low_bytes against usable_bytes.
const (
	Fits       Verdict = "fits"         // high ≤ usable
	Tight      Verdict = "tight"        // device ≤ usable < high
	Unlikely   Verdict = "unlikely"     // low ≤ usable < device
	DoesNotFit Verdict = "does_not_fit" // low > usable
	Unknown    Verdict = "unknown"
)

// Note explains something about an answer.
type Note struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// TimelineEvent is the live memory after one moment of the step.
type TimelineEvent struct {
	Phase          string `json:"phase"`
	MicroStep      *int64 `json:"micro_step"`
	Event          string `json:"event"`
	AllocatedBytes int64  `json:"allocated_bytes"`
	// Components add up to AllocatedBytes; those that hold nothing are left out, and all of them for an evaluation.
	Components []Part `json:"components,omitempty"`
	// Tensor is the one whose allocation reached the most of a stretch; absent where a stretch has most at its end.
	Tensor *Tensor `json:"tensor,omitempty"`
}

// Tensor is Count tensors of one kind and size that are alive at the peak.
type Tensor struct {
	Name      string `json:"name"`
	Component string `json:"component"`
	// Shape is in the sizes of the job, such as "16 × 1024 × 3072"; empty, like Dtype, for memory without a type.
	Shape string `json:"shape,omitempty"`
	Dtype string `json:"dtype,omitempty"`
	Bytes int64  `json:"bytes"`
	Count int64  `json:"count"`
	// Text is all of it in a line.
	Text string `json:"text"`
}
