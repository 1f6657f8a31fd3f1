package diagnose

// The floor, where no job is known: a small card that is mostly filled, and a small request that finds no place. A card
// of up to 8 GiB cannot hold the weights, gradients and moments of more than half a billion parameters (16 bytes each).
const (
	tinyCardBytes  = 6*gib + roundingBytes
	tinyFilled     = 0.55
	smallCardBytes = 8*gib + roundingBytes
	smallFilled    = 0.85
)

// floor turns what is not told into a floor where the card could hold no batch.
func (m *Message) floor(c *Cause, a Accounting, job *Job) {
	if a.TotalBytes == nil {
		return
	}
	if floorDecides(c.Class) {
		switch left := a.leftBytes(); {
		case job.FloorBytes > *a.TotalBytes:
			c.settle(ClassFloor, Exact, "weights + gradients + optimizer state of the job are "+
				formatBytes(job.FloorBytes)+", more than the card has")
			return
		case job.FloorBytes > left && left < *a.TotalBytes:
			c.settle(ClassFloor, ClassOnly, "weights + gradients + optimizer state of the job, with what its step "+
				"needs at the smallest batch, are "+formatBytes(job.FloorBytes)+", and the card leaves PyTorch "+
				formatBytes(left))
			return
		}
	}
	if c.Class != ClassUnknown || a.AllocatedBytes == nil || m.RequestedBytes == nil {
		return
	}
	filled := float64(*a.AllocatedBytes) / float64(*a.TotalBytes)
	small := *a.TotalBytes <= tinyCardBytes && filled >= tinyFilled || *a.TotalBytes <= smallCardBytes &&
		filled >= smallFilled
	if small && *m.RequestedBytes < *a.TotalBytes/4 {
		c.settle(ClassFloor, ClassOnly, formatBytes(*a.AllocatedBytes)+" of a card of "+formatBytes(*a.TotalBytes)+
			" are allocated: the card is too small for more than some 500 million parameters with gradients "+
			"and Adam's moments")
	}
}

// floorDecides reports whether a floor above the card says more than the class that was found: not where the job was
// not training yet, or where somebody else keeps memory of the card from it.
func floorDecides(found Class) bool {
	switch found {
	case ClassWeightsLoad, ClassWeightsFlat, ClassOtherProcess, ClassLimit:
		return false
	}
	return true
}
