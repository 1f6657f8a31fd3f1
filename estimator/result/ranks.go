package result

// RankPeak is what one of the GPUs that may hold most takes.
type RankPeak struct {
	// Rank is the GPU, from 0.
	Rank int64 `json:"rank"`
	// Where is its place among the others.
	Where string `json:"where"`
	// Fullest says that the rest of the answer is about this one.
	Fullest bool `json:"fullest"`

	AllocatedBytes int64 `json:"allocated_bytes"`
	ReservedBytes  int64 `json:"reserved_bytes"`
	DeviceBytes    int64 `json:"device_bytes"`
	// LowBytes of a GPU that is not the fullest may take what is alive at its peak for the smallest limit.
	LowBytes  int64 `json:"low_bytes"`
	HighBytes int64 `json:"high_bytes"`
}
