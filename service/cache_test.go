package service

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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
		a.made <- "the answer"
		if got := <-third; got.answer != "the answer" || got.err != nil {
			t.Errorf("the one who stayed got %+v", got)
		}
		<-first
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

// TestAPanicLeavesNobodyWaiting: it belongs to the caller whose goroutine it is in, and the others get an error.
func TestAPanicLeavesNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked()
		goOn, caught := make(chan bool), make(chan any)
		go func() {
			defer func() { caught <- recover() }()
			_, _ = a.do(t.Context(), digest{1}, func(context.Context) (string, error) {
				<-goOn
				panic("a bug")
			})
		}()
		synctest.Wait()
		second := a.ask(t.Context())
		goOn <- true
		if got := <-caught; got != "a bug" {
			t.Errorf("the maker's goroutine ended with %v", got)
		}
		internal, ok := errors.AsType[*Error]((<-second).err)
		if !ok || internal.Code != CodeInternal {
			t.Errorf("the other caller got %v", internal)
		}
		if len(a.open) != 0 {
			t.Error("something is still open")
		}
	})
}
