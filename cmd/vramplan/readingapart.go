package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/apart"
)

// readingApartCommand reads strangers' files for a service, in a process of its own.
type readingApartCommand struct{}

// readingApartName is what the service calls itself with.
const readingApartName = "reading-apart"

// Run does the work on standard input.
func (readingApartCommand) Run(ctx context.Context, t *terminal) error {
	return apart.Serve(t.stdin, t.stdout, func(work json.RawMessage) (any, error) {
		return service.ReadApart(ctx, work)
	})
}

// readingSeconds is how long a reading may have a core: one of a program and its configurations takes some
// milliseconds, of the largest files that people handed over a tenth of a second (docs/lab/readers.md).
const readingSeconds = 1

// readingRoom is where a service has strangers' files read, in processes of which each has a part of the container's
// memory.
func readingRoom(m memory) (*apart.Room, error) {
	path, name, err := apart.Program()
	if err != nil {
		return nil, fmt.Errorf("find this program, to read files in a process apart: %w", err)
	}
	return &apart.Room{Program: path, Args: []string{name, readingApartName},
		Limits: apart.Limits{MemoryBytes: m.reading, Seconds: readingSeconds}}, nil
}

// readersOf is how many readings are at work at once within a limit.
func readersOf(limit int64) int {
	if limit > 0 && limit < 1<<30 {
		return 1
	}
	return max(1, runtime.GOMAXPROCS(0)/2)
}
