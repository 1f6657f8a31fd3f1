package job

// GPU is what the estimator needs to know of a card.
type GPU struct {
	ID   string
	Name string
	// MemoryBytes is what nvidia-smi calls memory.total.
	MemoryBytes int64
	// UsableBytes is what the driver hands to CUDA (torch's total_memory); 0 when nobody knows.
	UsableBytes int64
	// HeldBytes is what others hold of it, as the job says of this card.
	HeldBytes int64
	// ComputeCapability is major×10+minor, 89 for Ada; 0 when unknown.
	ComputeCapability int
	// Multiprocessors is the number of SMs; it sizes the scratch of reductions. 0 when unknown.
	Multiprocessors int
	// PeakFLOPS is the dense half-precision matrix throughput in FLOP/s; 0 when unknown.
	PeakFLOPS float64
	// FP32FLOPS is the vector float32 throughput in FLOP/s; 0 when unknown.
	FP32FLOPS float64
	// BandwidthBytesPerSecond is the memory bandwidth; 0 when unknown.
	BandwidthBytesPerSecond float64
	// LinkBytesPerSecond is how fast a card of this kind is reached from another in its host, each way, as its data
	// sheet has it; 0 when unknown.
	LinkBytesPerSecond float64
	// Single says that no host has several that work together: laptops, systems on a chip, parts of a card.
	Single bool
	// Vendor is "NVIDIA", "AMD", …
	Vendor string
	// Line is what the card is sold for; empty when unknown.
	Line Line
	// PricePerHour is what an hour of it costs, in the unit of the job's other cards; 0 when nobody says.
	PricePerHour float64
}

// Line is what kind of machine a card is sold for.
type Line string

// The lines of cards.
const (
	Desktop     Line = "desktop"
	Laptop      Line = "laptop"
	Workstation Line = "workstation"
	DataCenter  Line = "data-center"
	Embedded    Line = "embedded" // systems on a chip, which share the processor's memory
)

// DisplayBytes is left free for a display and the programs on it. Seen held by others: some 420 MiB of an RTX 3060
// under a light Linux desktop (11.34 GiB free of 11.75, smy20011/dreambooth-gui issue 78), 459 to 507 MiB of RTX 4090s
// (RLinf/RLinf issue 255), 2.1 GiB of the RTX 4070 of docs/lab/stories.md. With less, a browser ends a run; with more,
// micro-batches are given away that most desktops leave.
const DisplayBytes = 1 << 30

// HeldOn is what others hold of a card: of every card, and of this one.
func (j *Job) HeldOn(g *GPU) int64 { return j.ReserveBytes + g.HeldBytes }

// DisplayRoom is what a plan leaves free on a card besides what the job reserves: DisplayBytes where the card drives a
// display, by what the job says or else by its line, and 0 elsewhere.
func (j *Job) DisplayRoom(g *GPU) int64 {
	drives := j.HeldOn(g) == 0 && (g.Line == Desktop || g.Line == Laptop)
	if j.Display != nil {
		drives = *j.Display
	}
	if !drives {
		return 0
	}
	return DisplayBytes
}
