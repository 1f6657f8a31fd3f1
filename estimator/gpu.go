package estimator

// GPU is what the estimator needs to know of a card.
type GPU struct {
	ID   string
	Name string
	// MemoryBytes is what nvidia-smi calls memory.total.
	MemoryBytes int64
	// UsableBytes is what the driver hands to CUDA (torch's total_memory); 0 when nobody knows.
	UsableBytes int64
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
	// LinkBytesPerSecond is how fast a card of this kind is reached from another in its host, each way, as its data sheet has it; 0
	// when unknown.
	LinkBytesPerSecond float64
	// Single says that no host has several that work together: laptops, systems on a chip, parts of a card.
	Single bool
	// Vendor is "NVIDIA", "AMD", …
	Vendor string
}
