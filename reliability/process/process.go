// Package process measures what this process takes, and holds the reading of documents against what their length
// allows.
package process

import (
	"fmt"
	"runtime/metrics"
	"syscall"
	"time"
)

// What reading a document may take. The constants are some ten times what the documents of the fuzz targets take under
// the coverage counters of go test -fuzz, which slow a program down up to threefold. A document that has to be read in
// more than linear time passes them at a few kilobytes, which fuzzing reaches.
const (
	anyway, anywayBytes   = 300 * time.Millisecond, 24 << 20
	perByte, bytesPerByte = 2 * time.Microsecond, 1 << 10
)

// Time is the processor time that the process had so far.
func Time() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Allocated is how many bytes the process allocated so far, given back or not.
func Allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Reading calls read, which reads a document of so many bytes, and says whether it took more processor time or memory
// than that may take. Nothing else should be at work in the process. What took too much is read again, for the
// collector may have had the garbage of others to do, and tables are made when they are first asked for: what a
// document takes, it takes each time.
func Reading(documentBytes int, read func()) error {
	const times = 3
	var dear error
	for range times {
		began, before := Time(), Allocated()
		read()
		took, bytes := Time()-began, int64(Allocated()-before)
		most, mostBytes := anyway+time.Duration(documentBytes)*perByte, anywayBytes+int64(documentBytes)*bytesPerByte
		if took <= most && bytes <= mostBytes {
			return nil
		}
		dear = fmt.Errorf("reading %d bytes took %v and %d bytes of memory; %v and %d are the most", documentBytes, took,
			bytes, most, mostBytes)
	}
	return dear
}
