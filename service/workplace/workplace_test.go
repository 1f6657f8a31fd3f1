package workplace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	_ "github.com/vramplan/vramplan/reliability/draws" // random tests draw the same for everybody
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// metric is a figure as Prometheus sees it, of one label's value where there is a label.
func metric(t *testing.T, p *Place, name, label string) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(p.Collectors()...)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// asked is work of a client that is at it until it may end.
type asked struct {
	client  string
	began   chan struct{}
	end     chan struct{}
	outcome chan error
}

// ask begins work; it waits where there is no place.
func ask(ctx context.Context, p *Place, client string, s Size) *asked {
	a := &asked{client, make(chan struct{}), make(chan struct{}), make(chan error, 1)}
	go func() {
		_, err := Do(For(ctx, client, "/"), p, s, func(ctx context.Context) (int, error) {
			close(a.began)
			select {
			case <-a.end:
			case <-ctx.Done():
			}
			return 0, ctx.Err()
		})
		a.outcome <- err
	}()
	synctest.Wait()
	return a
}

func (a *asked) atWork() bool {
	select {
	case <-a.began:
		return true
	default:
		return false
	}
}

func (p *Place) empty(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, r := range map[string]*room{"quick": &p.quick, "small": &p.small, "large": &p.large,
		"readings": &p.readings} {
		if r.free != r.all || len(r.has) > 0 || r.inUse() {
			t.Errorf("%s: %d of %d bytes are free, %v has some, %d wait, %d at work", name, r.free, r.all, r.has,
				len(r.waiting), r.busy)
		}
	}
	for i := range p.cores.stages {
		if p.cores.stages[i].inUse() {
			t.Errorf("stage %d is in use", i)
		}
	}
	if len(p.works) > 0 || p.queued > 0 || len(p.queue) > 0 {
		t.Errorf("%d at work, %d wait: %v", len(p.works), p.queued, p.queue)
	}
}

// Places go round among the clients, whoever came first.
func TestPlacesGoRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{MaxConcurrent: 1})
		at := ask(t.Context(), p, "first", Long)
		var line []*asked
		for _, client := range []string{"greedy", "greedy", "greedy", "a", "b", "a"} {
			line = append(line, ask(t.Context(), p, client, Long))
		}
		order := ""
		for range line {
			close(at.end)
			synctest.Wait()
			for i, a := range line {
				if a != nil && a.atWork() {
					at, line[i] = a, nil
					order += a.client + " "
				}
			}
		}
		close(at.end)
		if want := "greedy a b greedy a greedy "; order != want {
			t.Errorf("places went to %s, want %s", order, want)
		}
		synctest.Wait()
		p.empty(t)
	})
}

// Who had much of the cores comes after who had little.
func TestPlacesGoByWhatClientsHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{MaxConcurrent: 2, MaxConcurrentPerClient: 1})
		other := ask(t.Context(), p, "other", Long)
		ended := make(chan error)
		go func() {
			_, err := Do(For(t.Context(), "large", "/"), p, Long, func(ctx context.Context) (int, error) {
				turn, err := p.Turn(ctx)
				if err == nil {
					turn.runFor(100 * time.Millisecond)
				}
				return 0, err
			})
			ended <- err
		}()
		synctest.Wait()
		large := ask(t.Context(), p, "large", Long)
		small := []*asked{ask(t.Context(), p, "small", Long), ask(t.Context(), p, "small", Long)}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !small[0].atWork() || large.atWork() {
			t.Error("the client of large work goes first")
		}
		close(small[0].end)
		synctest.Wait()
		if !small[1].atWork() || large.atWork() {
			t.Error("the client of large work goes second")
		}
		for _, a := range []*asked{other, small[1], large} {
			close(a.end)
		}
		synctest.Wait()
		p.empty(t)
	})
}

// Where too many wait, the last of the client with most of them has to go, and one with as many is sent away.
func TestGreediestIsSentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{MaxConcurrent: 1, MaxQueue: 3})
		first := ask(t.Context(), p, "first", Long)
		greedy := []*asked{ask(t.Context(), p, "greedy", Long), ask(t.Context(), p, "greedy", Long),
			ask(t.Context(), p, "greedy", Long)}
		if !p.Full("greedy") || p.Full("a") {
			t.Errorf("full for greedy: %v, for another client: %v", p.Full("greedy"), p.Full("a"))
		}
		if err := <-ask(t.Context(), p, "greedy", Long).outcome; !errors.Is(err, ErrShed) {
			t.Errorf("one more of the client that fills the queue: %v", err)
		}
		a := ask(t.Context(), p, "a", Long)
		if err := <-greedy[2].outcome; !errors.Is(err, ErrShed) {
			t.Errorf("the last of the greediest client got %v", err)
		}
		// 2 of greedy and 1 of a are left: a second of a would not make it less even.
		if err := <-ask(t.Context(), p, "a", Long).outcome; !errors.Is(err, ErrShed) {
			t.Errorf("a second request of a: %v", err)
		}
		served := []*asked{first, greedy[0], greedy[1], a}
		for _, x := range served {
			close(x.end)
		}
		for _, x := range served {
			if err := <-x.outcome; err != nil {
				t.Errorf("%s: %v", x.client, err)
			}
		}
		p.empty(t)
		if n := metric(t, p, "vramplan_shed_total", "jobs"); n != 3 {
			t.Errorf("%v were counted as sent away, 3 were", n)
		}
	})
}

// Nobody waits for longer than they may, or when their client has gone.
func TestPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{MaxConcurrent: 1, QueueTimeout: time.Second})
		first := ask(t.Context(), p, "", Long)
		began := time.Now()
		err := <-ask(t.Context(), p, "", Long).outcome
		if !errors.Is(err, ErrShed) || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		gone, cancel := context.WithCancel(t.Context())
		left := ask(gone, p, "", Long)
		cancel()
		if err := <-left.outcome; !errors.Is(err, context.Canceled) {
			t.Errorf("a client that left: %v", err)
		}
		close(first.end)
		synctest.Wait()
		p.empty(t)
	})
}

// One client cannot have all places, however many others are free, and work within work needs none of its own.
func TestPlacesOfOneClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{MaxConcurrent: 3, MaxConcurrentPerClient: 2})
		all := []*asked{ask(t.Context(), p, "greedy", Long), ask(t.Context(), p, "greedy", Long),
			ask(t.Context(), p, "greedy", Long), ask(t.Context(), p, "honest", Long),
			ask(t.Context(), p, "reads", Reading)}
		if all[2].atWork() || !all[3].atWork() || !all[4].atWork() {
			t.Errorf("the third of one client: %v, another's: %v, a reading: %v", all[2].atWork(), all[3].atWork(),
				all[4].atWork())
		}
		for _, a := range all {
			close(a.end)
		}
		synctest.Wait()
		got, err := Do(t.Context(), New(Limits{MaxConcurrent: 1}), Long, func(ctx context.Context) (int, error) {
			return Do(ctx, p, Long, func(context.Context) (int, error) { return 7, nil })
		})
		if got != 7 || err != nil {
			t.Errorf("work within work: %d, %v", got, err)
		}
		p.empty(t)
	})
}

// What takes too long is answered in time, and keeps its place until it really ends: otherwise clients that ask again
// would pile it up.
func TestLateWorkKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Limits{MaxConcurrent: 1, RequestTimeout: time.Second, QueueTimeout: time.Minute})
		end := make(chan struct{})
		_, err := Do(t.Context(), p, Long, func(context.Context) (int, error) {
			<-end // it does not look whether anybody waits
			return 0, nil
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		next := ask(t.Context(), p, "", Long)
		if next.atWork() {
			t.Error("its place is free")
		}
		close(end)
		synctest.Wait()
		if !next.atWork() {
			t.Error("its place is not given back")
		}
		close(next.end)
		synctest.Wait()
		p.empty(t)
	})
}

// A panic is an error of its work and of no other.
func TestPanicIsAnError(t *testing.T) {
	p := New(Limits{MaxConcurrent: 1})
	_, err := Do(t.Context(), p, Long, func(context.Context) (int, error) { panic("a bug") })
	if cause, ok := errors.AsType[*Panic](err); !ok || cause.Value != "a bug" || len(cause.Stack) == 0 {
		t.Errorf("%v", err)
	}
	p.empty(t)
}

// However clients ask, wait, book, leave and lose patience: no more memory is taken than there is, nobody waits for
// ever, and in the end all of it and every place is free.
func TestTheAccountIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{MaxConcurrent: rapid.IntRange(1, 4).Draw(t, "places"),
			MaxQueue: rapid.IntRange(1, 60).Draw(t, "queue"), ReplayBytes: 1 << 20, QueueTimeout: time.Minute}
		p := New(limits)
		seed := rapid.Uint64().Draw(t, "seed")
		n := rapid.IntRange(1, 40).Draw(t, "n")
		var mu sync.Mutex
		taken, most := map[*room]int64{}, map[*room]int64{}
		outcomes := map[error]int{}
		var all sync.WaitGroup
		for i := range n {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			all.Go(func() {
				ctx, cancel := context.WithCancel(For(context.Background(), fmt.Sprint(rng.IntN(4)), "/"))
				defer cancel()
				switch rng.IntN(6) {
				case 0:
					cancel()
				case 1:
					time.AfterFunc(time.Duration(rng.IntN(2000))*time.Microsecond, cancel)
				}
				_, err := Do(ctx, p, Size(rng.IntN(2)), func(ctx context.Context) (int, error) {
					for range 1 + rng.IntN(3) {
						turn, err := p.Turn(ctx)
						if err != nil {
							return 0, err
						}
						bytes := int64(1) << rng.IntN(19)
						if err := turn.Book(bytes, int64(1)<<rng.IntN(30)); err != nil {
							turn.End()
							return 0, err
						}
						in := turn.booked[0].room
						mu.Lock()
						taken[in] += bytes
						most[in] = max(most[in], taken[in])
						mu.Unlock()
						time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
						turn.Pace()
						mu.Lock()
						taken[in] -= bytes
						mu.Unlock()
						turn.End()
					}
					return 0, ctx.Err()
				})
				mu.Lock()
				defer mu.Unlock()
				if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrShed) {
					outcomes[err]++
				}
			})
		}
		all.Wait()
		for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
			p.mu.Lock() // what was left ends by itself
			left := len(p.works)
			p.mu.Unlock()
			if left == 0 {
				break
			}
		}
		for r, bytes := range most {
			if bytes > r.all {
				t.Errorf("%d of %d bytes were taken at once", bytes, r.all)
			}
		}
		if len(outcomes) > 0 {
			t.Errorf("%v", outcomes)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, r := range []*room{&p.quick, &p.small, &p.large} {
			if r.free != r.all || len(r.has) > 0 || r.inUse() || r.places != limits.MaxConcurrent {
				t.Errorf("%+v is left", r)
			}
		}
		if len(p.works) > 0 || p.queued > 0 || len(p.queue) > 0 {
			t.Errorf("%d at work, %d wait", len(p.works), p.queued)
		}
	})
}
