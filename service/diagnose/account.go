package diagnose

// Accounting is where the card's memory is, as far as a message says it. What it does not say is nil.
type Accounting struct {
	TotalBytes *int64 `json:"total_bytes,omitempty"`
	FreeBytes  *int64 `json:"free_bytes,omitempty"`
	// AllocatedBytes and UnallocatedBytes are this process's in PyTorch's allocator, ContextBytes its rest.
	AllocatedBytes   *int64 `json:"allocated_bytes,omitempty"`
	UnallocatedBytes *int64 `json:"unallocated_bytes,omitempty"`
	ContextBytes     *int64 `json:"context_bytes,omitempty"`
	// OthersBytes is what neither is free nor this process's; with ContextCounted, this process's context is in it.
	OthersBytes    *int64 `json:"others_bytes,omitempty"`
	ContextCounted bool   `json:"context_counted,omitempty"`
	// SharesHostMemory says that more is allocated than the card has: Windows lends the machine's.
	SharesHostMemory bool `json:"shares_host_memory,omitempty"`
}

// A process has a context beside what PyTorch allocates: 240 to 560 MiB on today's software with one GPU
// (docs/how-it-works.md), up to about 1.2 GiB on the large cards of former releases, with cuDNN's and NCCL's own.
// Below, a process of that size could be this one; above, what cannot be accounted for belongs to somebody else.
const contextMostBytes = 5 * gib / 4

// contextMostShare is the share of a card that this process may hold beside its allocator in a run over several cards:
// NCCL's buffers, cuBLAS's workspaces and the kernels of DeepSpeed take up to 3 GiB of a card of 80. It only matters on
// cards above 31 GiB; below, contextMostBytes is more.
const contextMostShare = 0.04

// tell works out where the memory is.
func (m *Message) accounting() Accounting {
	a := Accounting{TotalBytes: m.TotalBytes, FreeBytes: m.FreeBytes, AllocatedBytes: m.AllocatedBytes,
		UnallocatedBytes: m.UnallocatedBytes}
	if m.AllocatedBytes == nil || m.TotalBytes == nil {
		return a
	}
	a.SharesHostMemory = *m.AllocatedBytes > *m.TotalBytes
	unallocated := int64(0)
	if m.UnallocatedBytes != nil {
		unallocated = *m.UnallocatedBytes
	}
	own := *m.AllocatedBytes + unallocated
	if m.ThisProcessBytes == nil {
		// A process that holds what this one's allocator does, and a context, is this one: a container does not know
		// its own. So is one beside which there is no room for what this one is known to hold.
		for i := range m.Processes {
			p := &m.Processes[i]
			rest := p.Bytes - own
			// there is room for both
			beside := m.FreeBytes == nil || p.Bytes+own <= *m.TotalBytes-*m.FreeBytes+roundingBytes
			if rest >= -roundingBytes && (rest <= contextMostBytes || !beside) {
				p.ThisProcess = true
				m.ThisProcessBytes = &p.Bytes
				break
			}
		}
	}
	switch {
	case m.ThisProcessBytes != nil:
		context := max(0, *m.ThisProcessBytes-own)
		a.ContextBytes = &context
		if m.FreeBytes != nil {
			others := max(0, *m.TotalBytes-*m.FreeBytes-*m.ThisProcessBytes)
			a.OthersBytes = &others
		}
	case m.FreeBytes != nil && m.UnallocatedBytes != nil && !a.SharesHostMemory:
		others := max(0, *m.TotalBytes-*m.FreeBytes-own)
		a.OthersBytes, a.ContextCounted = &others, true
	}
	return a
}

// roundingBytes is how far sums of printed sizes may be off: two decimals of a GiB each.
const roundingBytes = 24 * mib

// leftBytes is what the card leaves PyTorch's allocator beside this process's context and others: the card's total
// where the message does not say it.
func (a Accounting) leftBytes() int64 {
	left := *a.TotalBytes
	for _, outside := range []*int64{a.ContextBytes, a.OthersBytes} {
		if outside != nil {
			left -= *outside
		}
	}
	return left
}

// othersHold is how much others surely hold: what listed processes do, or what is left behind the largest context.
func (m *Message) othersHold(a Accounting) int64 {
	if m.Backend == "mps" {
		return 0
	}
	var listed int64
	for _, p := range m.Processes {
		if !p.ThisProcess {
			listed += p.Bytes
		}
	}
	if listed > 0 && m.ThisProcessBytes != nil {
		return listed
	}
	if a.OthersBytes == nil {
		return 0
	}
	if a.ContextCounted {
		return max(0, *a.OthersBytes-max(contextMostBytes, int64(contextMostShare*float64(*a.TotalBytes))))
	}
	return *a.OthersBytes
}

// otherProcessLeast is the least that others hold for them to be called the cause: a desktop takes less.
const otherProcessLeast = 1 * gib

// fragmentedShare is the least share of what is reserved that lies in pieces for fragmentation to be called the cause.
// Where less does, the card is full: of the traced training steps nine in ten reserve up to a tenth beyond what they
// allocate (docs/lab/accuracy.md), in pieces, and run.
const (
	fragmentedShare = 0.1
	// fragmentedLeast is the least in pieces that is worth winning back: a card that is that full fails at the next
	// request.
	fragmentedLeast = 512 * mib
)

// refusedLeast is how much more than was asked for has to be free for the driver to have refused it: the card is full
// where less is. Beside its allocator a process takes some hundred MiB as it goes along, kernels that are loaded at
// their first use and workspaces of libraries (docs/how-it-works.md: contexts of 246 to 553 MiB), and the figure of
// what is free is read after the request failed. Up to refusedSure it is likely, beyond it is certain.
const (
	refusedLeast = 128 * mib
	refusedSure  = 512 * mib
)

// fullCard says what is free where it would have been enough by the figures and leaves no room: "" where it is not so.
func (m *Message) fullCard(a Accounting) string {
	if m.Kind != KindAllocator || m.RequestedBytes == nil || m.FreeBytes == nil || a.SharesHostMemory {
		return ""
	}
	more := *m.FreeBytes - *m.RequestedBytes
	if more < 0 || more >= refusedLeast {
		return ""
	}
	return "The card is full: " + formatBytes(*m.FreeBytes) + " are free for the " + formatBytes(*m.RequestedBytes) +
		" asked for, and the " + formatBytes(more) + " between them are no room: a process takes some beside its " +
		"allocator, and what is free was read after the request failed."
}

// certainty is how sure an accounting's class is: of what lies near its margin it is likely.
func (m *Message) certainty(class Class) Certainty {
	switch {
	case class == ClassDriverRefused && *m.FreeBytes-*m.RequestedBytes < refusedSure,
		class == ClassFragmentation && *m.UnallocatedBytes-*m.RequestedBytes < *m.RequestedBytes/10:
		return Likely
	}
	return Exact
}

// byAccounting is the class that follows from the accounting alone, or none.
func (m *Message) byAccounting(a Accounting) (Class, string) {
	if m.RequestedBytes == nil {
		return "", ""
	}
	requested := *m.RequestedBytes
	switch {
	case m.Backend == "mps" && m.TotalBytes != nil && m.AllocatedBytes != nil:
		return ClassLimit, "what was asked for would pass the limit of this process, " + formatBytes(*m.TotalBytes)
	case m.AllowedBytes != nil && m.AllocatedBytes != nil && m.FreeBytes != nil && *m.FreeBytes >= requested &&
		*m.AllocatedBytes+requested > *m.AllowedBytes:
		return ClassLimit, "this process may take " + formatBytes(*m.AllowedBytes) + ", a limit that was set"
	}
	if m.FreeBytes != nil && *m.FreeBytes-requested >= refusedLeast && !a.SharesHostMemory {
		return ClassDriverRefused, formatBytes(*m.FreeBytes) + " are free, " + formatBytes(*m.FreeBytes-requested) +
			" more than the " + formatBytes(requested) + " asked for"
	}
	if held := m.othersHold(a); held > otherProcessLeast && (m.FreeBytes == nil || *m.FreeBytes+held >= requested) {
		return ClassOtherProcess, formatBytes(held) + " of the card are held by another process (" + m.whose(a) + ")"
	}
	if m.UnallocatedBytes != nil && m.ReservedBytes != nil && *m.UnallocatedBytes >= max(requested, fragmentedLeast) &&
		float64(*m.UnallocatedBytes) >= fragmentedShare*float64(*m.ReservedBytes) {
		return ClassFragmentation, formatBytes(*m.UnallocatedBytes) + " are reserved and unallocated, more than the " +
			formatBytes(requested) + " asked for: they lie in pieces"
	}
	return "", ""
}

// whose says how the share of others was found.
func (m *Message) whose(a Accounting) string {
	if a.ContextCounted {
		return "total − free − this process's allocator − the largest context that it can have itself"
	}
	for _, p := range m.Processes {
		if !p.ThisProcess {
			return "process " + itoa(int64(p.PID)) + " has " + formatBytes(p.Bytes)
		}
	}
	return "total − free − this process"
}
