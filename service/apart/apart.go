// Package apart runs work on strangers' input in processes of its own, so that it ends when its request does, whatever
// it is in the middle of, and takes no more memory and time than it was given: the operating system sees to that. A
// loop that no context stops, a tree that nobody foresaw and a product of two sizes that each are bounded end such a
// process, and nothing else.
//
// The child is this program again, called by a hidden command. It reads one JSON value from standard input, and writes
// one to standard output.
package apart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

// Limits are those of one process.
type Limits struct {
	// MemoryBytes bounds what it may allocate, its program and the Go runtime included.
	MemoryBytes int64 `json:"memory_bytes"`
	// Seconds bounds how long it may have a core.
	Seconds int64 `json:"seconds"`
}

// ErrTooMuch means that work did not end within its limits.
var ErrTooMuch = errors.New("the work takes more than it may")

// Room is where work is done; its callers see to how much at a time.
type Room struct {
	// Program and Args are what is run: this program, and the name of its hidden command.
	Program string
	Args    []string
	Limits  Limits

	outlive atomic.Int64
}

// Outliving is how many processes are at work now whose request has ended: 0 but for the moment in which they are
// killed.
func (r *Room) Outliving() int64 { return r.outlive.Load() }

// envelope is what a child reads.
type envelope struct {
	Limits Limits          `json:"limits"`
	Work   json.RawMessage `json:"work"`
}

// errorBytes is how much is kept of what a child says on standard error, from its beginning, resultBytes the most that
// it may answer.
const (
	errorBytes  = 16 << 10
	resultBytes = 16 << 20
)

// Do gives a process in to do, and decodes what it answers into out. The error is ctx's, [ErrTooMuch], or of a fault of
// the program, without anything of what was read.
func (r *Room) Do(ctx context.Context, in, out any) error {
	work, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("write work down: %w", err)
	}
	sent, err := json.Marshal(envelope{r.Limits, work})
	if err != nil {
		return fmt.Errorf("write work down: %w", err)
	}
	var answer, last limited
	answer.most, last.most = resultBytes, errorBytes
	child := exec.CommandContext(ctx, r.Program)
	child.Args = r.Args
	child.Stdin, child.Stdout, child.Stderr = bytes.NewReader(sent), &answer, &last
	child.WaitDelay = time.Second
	// Nothing of this process's settings is the child's business, a database's password least of all.
	child.Env = []string{"GOTRACEBACK=single", fmt.Sprintf("GOMEMLIMIT=%d", r.Limits.MemoryBytes*3/4), "GOMAXPROCS=1"}
	tie(child)
	ended := make(chan struct{})
	gone := context.AfterFunc(ctx, func() {
		r.outlive.Add(1)
		defer r.outlive.Add(-1)
		<-ended
	})
	defer gone()
	// The kernel ends the child with the thread that started it.
	runtime.LockOSThread()
	err = child.Run()
	runtime.UnlockOSThread()
	close(ended)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case answer.cut || err != nil && beyond(child.ProcessState, last.kept.String()):
		return ErrTooMuch
	case err != nil:
		return fmt.Errorf("a process apart: %w%s", err, stackOf(last.kept.String()))
	}
	if err := json.Unmarshal(answer.kept.Bytes(), out); err != nil {
		return fmt.Errorf("read what a process apart answers: %w", err)
	}
	return nil
}

// stackOf is where a child failed, without the words with which it did: they may be a stranger's.
func stackOf(last string) string {
	var b strings.Builder
	for line := range strings.Lines(last) {
		if strings.HasPrefix(line, "\t") && strings.Contains(line, ".go:") && b.Len() < 2048 {
			b.WriteString("; " + strings.TrimSpace(line))
		}
	}
	return b.String()
}

// limited keeps the beginning of what is written. The buffer is not embedded, since its ReadFrom would be taken then.
type limited struct {
	kept bytes.Buffer
	most int
	cut  bool
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.most - l.kept.Len(); len(p) > room {
		l.cut = true
		l.kept.Write(p[:room])
		return len(p), nil
	}
	return l.kept.Write(p)
}

// Serve is the child's side: it takes work, confines itself to the limits that came with it, does it, and writes what
// comes of it.
func Serve(in io.Reader, out io.Writer, do func(work json.RawMessage) (any, error)) error {
	var e envelope
	if err := json.NewDecoder(in).Decode(&e); err != nil {
		return fmt.Errorf("read the work: %w", err)
	}
	if err := confine(e.Limits); err != nil {
		return fmt.Errorf("confine the work: %w", err)
	}
	result, err := do(e.Work)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(result); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// Program is this program and its name.
func Program() (path, name string, err error) {
	path, err = os.Executable()
	return path, os.Args[0], err
}
