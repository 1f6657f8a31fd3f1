package diagnose

// Bounds of what is read, whatever is sent.
const (
	// MaxTextBytes is how much text is looked at. A message with its traceback is a few KiB; [Extract] takes them out
	// of logs.
	MaxTextBytes = 256 << 10
	// maxMessages, maxProcesses, maxSummaries and maxCards are how many of each are read.
	maxMessages  = 64
	maxProcesses = 32
	maxSummaries = 8
	maxCards     = 64
	// maxCandidates is how many tensors of one size are listed.
	maxCandidates = 12
	// tracebackLines is how far above its error a traceback may begin: Python's frames take two lines each, rich's a
	// dozen.
	tracebackLines = 160
)
