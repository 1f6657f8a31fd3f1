package api

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// queue makes a client wait at a gate; the result arrives on the channel.
func queue(g *gate, ctx context.Context, client string) <-chan error {
	before, done := g.queued(), make(chan error, 1)
	go func() { done <- g.enter(ctx, client) }()
	synctest.Wait()
	if g.queued() == before && len(done) == 0 && before < g.room {
		panic("neither let in nor waiting")
	}
	return done
}

func TestTurnsGoRoundAmongClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ctx := newGate(1, 10, 10, time.Hour), context.Background()
		if err := g.enter(ctx, "first"); err != nil {
			t.Fatal(err)
		}
		type waiting struct {
			name string
			done <-chan error
		}
		var line []waiting
		for _, client := range []string{"greedy", "greedy", "greedy", "a", "b", "a"} {
			line = append(line, waiting{client, queue(g, ctx, client)})
		}
		var order []string
		for range line {
			g.leave("first", 0)
			synctest.Wait()
			for i, w := range line {
				if len(w.done) == 1 {
					if err := <-w.done; err != nil {
						t.Fatal(err)
					}
					order, line[i].done = append(order, w.name), nil
				}
			}
		}
		if got, want := fmt.Sprint(order), "[greedy a b greedy a greedy]"; got != want {
			t.Errorf("turns %s, want %s", got, want)
		}
	})
}

// Small jobs do not wait behind large ones of a client that asks for many.
func TestTurnsGoByTheTimeThatJobsTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ctx := newGate(1, 10, 10, time.Hour), context.Background()
		if err := g.enter(ctx, "large"); err != nil {
			t.Fatal(err)
		}
		large := []<-chan error{queue(g, ctx, "large"), queue(g, ctx, "large")}
		small := []<-chan error{queue(g, ctx, "small"), queue(g, ctx, "small")}
		g.leave("large", 100*time.Millisecond)
		for i, done := range small {
			if err := <-done; err != nil {
				t.Fatalf("small job %d: %v", i, err)
			}
			if len(large[0]) != 0 {
				t.Errorf("a large job was let in before small job %d", i)
			}
			g.leave("small", time.Millisecond)
		}
		if err := <-large[0]; err != nil {
			t.Error(err)
		}
		// What was long ago does not count.
		for range 30 {
			time.Sleep(time.Second)
			g.mu.Lock()
			g.spend("other", 0)
			g.mu.Unlock()
		}
		if len(g.spent) > 1 {
			t.Errorf("%v is still remembered", g.spent)
		}
		g.leave("large", 0)
		if err := <-large[1]; err != nil {
			t.Error(err)
		}
	})
}

func TestFullGateSendsTheGreediestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ctx := newGate(1, 10, 3, time.Hour), context.Background()
		if err := g.enter(ctx, "first"); err != nil {
			t.Fatal(err)
		}
		greedy := []<-chan error{queue(g, ctx, "greedy"), queue(g, ctx, "greedy"), queue(g, ctx, "greedy")}
		if !g.full("greedy") || g.full("a") {
			t.Errorf("full for greedy: %v, for another client: %v", g.full("greedy"), g.full("a"))
		}
		if err := g.enter(ctx, "greedy"); !errors.Is(err, errShed) {
			t.Errorf("one more of the client that fills the room: %v", err)
		}
		a := queue(g, ctx, "a")
		if err := <-greedy[2]; !errors.Is(err, errShed) {
			t.Errorf("the last of the greediest client got %v", err)
		}
		// 2 of greedy and 1 of a are left: a second of a would not make it less even.
		if err := g.enter(ctx, "a"); !errors.Is(err, errShed) {
			t.Errorf("a second request of a: %v", err)
		}
		for range 3 {
			g.leave("first", 0)
		}
		for i, done := range []<-chan error{greedy[0], greedy[1], a} {
			if err := <-done; err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
		}
	})
}

func TestPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ctx := newGate(1, 10, 3, time.Second), context.Background()
		if err := g.enter(ctx, ""); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := g.enter(ctx, ""); !errors.Is(err, errShed) || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		gone, cancel := context.WithCancel(ctx)
		done := queue(g, gone, "")
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a client that left: %v", err)
		}
		if g.queued() != 0 || len(g.line) != 0 || len(g.byName) != 0 {
			t.Errorf("the line is not empty: %+v", g)
		}
	})
}

// However clients come, wait, leave and lose patience: no more than the slots are
// taken, no more than the room is full, and in the end all of it is free.
func TestGateKeepsCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots, room := rapid.IntRange(1, 4).Draw(t, "slots"), rapid.IntRange(1, 4).Draw(t, "room")
		clients := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 60).Draw(t, "clients")
		impatient := rapid.SliceOfN(rapid.Bool(), len(clients), len(clients)).Draw(t, "impatient")
		g := newGate(slots, slots, room, time.Minute)
		var inside, most int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i, client := range clients {
			ctx, cancel := context.WithCancel(context.Background())
			if impatient[i] {
				cancel()
			}
			all.Go(func() {
				defer cancel()
				if g.enter(ctx, fmt.Sprint(client)) != nil {
					return
				}
				mu.Lock()
				inside++
				most = max(most, inside)
				mu.Unlock()
				if g.queued() > room {
					t.Errorf("%d wait, there is room for %d", g.queued(), room)
				}
				mu.Lock()
				inside--
				mu.Unlock()
				g.leave(fmt.Sprint(client), time.Duration(client)*time.Millisecond)
			})
		}
		all.Wait()
		if most > slots || g.free != slots || g.queued() != 0 || len(g.line) != 0 || len(g.byName) != 0 {
			t.Fatalf("%d of %d slots were taken at once; at the end %d are free, %d wait, line %v, clients %v", most,
				slots, g.free, g.queued(), g.line, g.byName)
		}
	})
}
