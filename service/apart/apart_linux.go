package apart

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// tie ends a child when the thread that started it ends, and so with this process.
func tie(child *exec.Cmd) { child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// confine gives this process limits that it cannot take back. RLIMIT_DATA counts what can be written, and so not the
// address space that Go's runtime reserves; Linux counts private mappings in it since 4.7.
func confine(l Limits) error {
	const data = 2 // RLIMIT_DATA, which package syscall names alike on all of Linux
	memory := uint64(l.MemoryBytes)
	if err := syscall.Setrlimit(data, &syscall.Rlimit{Cur: memory, Max: memory}); err != nil {
		return os.NewSyscallError("setrlimit", err)
	}
	// Where the container is full, the kernel ends this process and not the service. It is no loss where that is not
	// allowed.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o644)
	// Go's runtime ignores the signal of a soft limit; at the hard one the kernel ends the process.
	seconds := uint64(l.Seconds)
	return os.NewSyscallError("setrlimit", syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: seconds, Max: seconds}))
}

// beyond says whether a child ended for its limits: by the signal of its seconds, or since the runtime got no memory.
func beyond(state *os.ProcessState, last string) bool {
	if state == nil {
		return false
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGXCPU
	}
	// Where the runtime itself gets no memory it may fall over its own nil pointer; in Go code that is a panic, with
	// other words (runtime/signal_unix.go, sighandler: "PC=" is written of a fault outside of Go code alone).
	if strings.HasPrefix(last, "SIGSEGV: segmentation violation\nPC=") {
		return true
	}
	for _, words := range []string{"out of memory", "cannot allocate memory", "errno=12", "stack exceeds"} {
		if strings.Contains(last, words) {
			return true
		}
	}
	return false
}
