package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAnswersKeepTheOrderOfTheJobs(t *testing.T) {
	const jobs = 500
	input := strings.Repeat("{}\n", jobs)
	ask := func(_ context.Context, doc document) ([]byte, error) {
		if doc.line%7 == 0 { // some take longer than those after them
			time.Sleep(time.Millisecond)
		}
		return []byte(fmt.Sprint(doc.line)), nil
	}
	next := 1
	err := each(t.Context(), newDocuments(strings.NewReader(input), nil, true), ask, func(a answer, _ bool) error {
		if string(a.body) != fmt.Sprint(next) {
			return fmt.Errorf("answer %s came where %d belongs", a.body, next)
		}
		next++
		return nil
	})
	if err != nil || next != jobs+1 {
		t.Errorf("each = %v after %d answers", err, next-1)
	}
}

// However much there is to read, only a few jobs are held while answers are slow.
func TestBatchMemoryIsBounded(t *testing.T) {
	var begun atomic.Int64
	ask := func(context.Context, document) ([]byte, error) { begun.Add(1); return nil, nil }
	stop := errors.New("enough")
	used := int64(0)
	err := each(t.Context(), newDocuments(endless{}, nil, true), ask, func(answer, bool) error {
		used++
		time.Sleep(time.Millisecond)
		if ahead, most := begun.Load()-used, int64(9*workers()+2); ahead > most {
			return fmt.Errorf("%d jobs ahead, want at most %d", ahead, most)
		}
		if used == 50 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) {
		t.Errorf("each = %v, want to be stopped", err)
	}
}

// endless is NDJSON without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = "{}\n"[i%3]
	}
	return len(b) - len(b)%3, nil
}

func TestBatchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ask := func(context.Context, document) ([]byte, error) { return nil, nil }
	err := each(ctx, newDocuments(endless{}, nil, true), ask, func(a answer, _ bool) error {
		if a.doc.line == 10 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("each = %v, want %v", err, context.Canceled)
	}
}

// A panic on a goroutine would end the process with 2, which means bad input.
func TestPanicOfAWorkerIsAnAnswer(t *testing.T) {
	ask := func(context.Context, document) ([]byte, error) { panic("boom") }
	docs := newDocuments(strings.NewReader("{}"), nil, true)
	var got error
	err := each(t.Context(), docs, ask, func(a answer, _ bool) error { got = a.err; return nil })
	if err != nil {
		t.Fatal(err)
	}
	var known *exitError
	if !errors.As(got, &known) || known.code != exitUndecided || !strings.Contains(got.Error(), "boom") {
		t.Errorf("answer = %v, want an internal error with exit code %d", got, exitUndecided)
	}
}

func TestPanicOfACommandIsThree(t *testing.T) {
	var stderr strings.Builder
	// A nil reader panics where standard input is read.
	code := run(t.Context(), []string{"check", "-f", "-"}, panicking{}, io.Discard, &stderr, nil)
	if code != exitUndecided || !strings.Contains(stderr.String(), "internal error") {
		t.Errorf("run = %d with %q, want %d with an internal error", code, stderr.String(), exitUndecided)
	}
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("a reader that breaks") }

func TestProgressCountsOnOneLineAndLeavesNone(t *testing.T) {
	var out strings.Builder
	earlier := time.Now().Add(-2 * time.Second)
	p := &progress{w: &out, began: earlier, shown: earlier}
	p.count(answer{})
	p.count(answer{err: errors.New("bad")}) // too soon to be shown
	if want := "\r1 jobs, 0 with problems, "; !strings.HasPrefix(out.String(), want) ||
		strings.Contains(out.String(), "\n") {
		t.Errorf("progress shows %q, want one line that begins with %q", out.String(), want)
	}
	p.done()
	if !strings.HasSuffix(out.String(), "\r\x1b[K") {
		t.Errorf("progress leaves %q behind", out.String())
	}
	if p.jobs != 2 || p.problems != 1 {
		t.Errorf("counted %d jobs and %d problems, want 2 and 1", p.jobs, p.problems)
	}

	out.Reset()
	quiet := newProgress(&terminal{stdout: &out, stderr: &out})
	quiet.shown = earlier
	quiet.count(answer{})
	quiet.done()
	if out.Len() > 0 {
		t.Errorf("progress writes %q where nobody looks", out.String())
	}
}
