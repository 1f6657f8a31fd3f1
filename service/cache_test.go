package service

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/vramplan/vramplan/service/workplace"
)

// asked is a cache of which one key is asked for by several callers.
type asked struct {
	*cache[string]
	made chan string // what the one who makes the answer gets it from
	runs int
}

func newAsked() *asked { return &asked{cache: newCache[string](8), made: make(chan string)} }

func (a *asked) answer(ctx context.Context) (string, error) {
	a.runs++
	select {
	case v := <-a.made:
		return v, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

type outcome struct {
	answer string
	err    error
}

func (a *asked) ask(ctx context.Context) <-chan outcome {
	out := make(chan outcome, 1)
	go func() {
		v, err := a.do(ctx, digest{1}, a.answer)
		out <- outcome{v, err}
	}()
	synctest.Wait()
	return out
}

// TestThoseWhoAskAtOnceShareAnAnswer, and whoever asks later finds it remembered.
func TestThoseWhoAskAtOnceShareAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked()
		first, second, third := a.ask(t.Context()), a.ask(t.Context()), a.ask(t.Context())
		a.made <- "the answer"
		for i, got := range []outcome{<-first, <-second, <-third, <-a.ask(t.Context())} {
			if got.answer != "the answer" || got.err != nil {
				t.Errorf("caller %d got %q, %v", i, got.answer, got.err)
			}
		}
		if s := a.stats(); a.runs != 1 || s.Misses != 1 || s.Hits != 3 {
			t.Errorf("%d runs, %+v", a.runs, s)
		}
	})
}

// TestACallerWhoGoesTakesNothingFromOthers, neither the one who makes the answer nor one who waits for it.
func TestACallerWhoGoesTakesNothingFromOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked()
		maker, makerGoes := context.WithCancel(t.Context())
		waiter, waiterGoes := context.WithCancel(t.Context())
		first, second, third := a.ask(maker), a.ask(waiter), a.ask(t.Context())
		makerGoes()
		waiterGoes()
		if got := <-second; !errors.Is(got.err, context.Canceled) {
			t.Errorf("the one who went got %+v", got)
		}
		if got := <-first; !errors.Is(got.err, context.Canceled) {
			t.Errorf("the one who asked first and went got %+v", got)
		}
		a.made <- "the answer"
		if got := <-third; got.answer != "the answer" || got.err != nil {
			t.Errorf("the one who stayed got %+v", got)
		}
		if a.runs != 1 {
			t.Errorf("%d runs", a.runs)
		}
	})
}

// TestTheWorkEndsWithItsLastCaller, and one who comes then starts anew.
func TestTheWorkEndsWithItsLastCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked()
		ctx, go1 := context.WithCancel(t.Context())
		first, second := a.ask(ctx), a.ask(ctx)
		go1()
		for _, got := range []outcome{<-first, <-second} {
			if !errors.Is(got.err, context.Canceled) {
				t.Errorf("got %+v", got)
			}
		}
		again := a.ask(t.Context())
		a.made <- "the answer"
		if got := <-again; got.answer != "the answer" || a.runs != 2 {
			t.Errorf("got %+v after %d runs", got, a.runs)
		}
	})
}

// TestWhoJoinedIsNotSentAway: where the client who asked first asks for too much, the others get an answer of their
// own.
func TestWhoJoinedIsNotSentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked()
		sent := make(chan struct{})
		greedy := make(chan error)
		go func() {
			_, err := a.do(t.Context(), digest{1}, func(context.Context) (string, error) {
				<-sent
				return "", workplace.ErrShed
			})
			greedy <- err
		}()
		synctest.Wait()
		joined := a.ask(t.Context())
		close(sent)
		if err := <-greedy; !errors.Is(err, workplace.ErrShed) {
			t.Errorf("the first got %v", err)
		}
		a.made <- "the answer"
		if got := <-joined; got.answer != "the answer" || got.err != nil {
			t.Errorf("the one who joined got %+v", got)
		}
		if len(a.open) != 0 {
			t.Error("something is still open")
		}
	})
}
