//go:build !linux

package apart

import (
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"
)

func tie(*exec.Cmd) {}

// confine has no limits of the operating system here: the stack of a goroutine and the time are bounded by the runtime.
func confine(l Limits) error {
	debug.SetMaxStack(int(l.MemoryBytes / 2))
	time.AfterFunc(time.Duration(l.Seconds)*time.Second, func() { os.Exit(exitTooMuch) })
	return nil
}

// exitTooMuch is how a child ends whose seconds are over.
const exitTooMuch = 97

func beyond(state *os.ProcessState, last string) bool {
	return state != nil && state.ExitCode() == exitTooMuch || strings.Contains(last, "stack exceeds") ||
		strings.Contains(last, "out of memory")
}
