package service_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/vramplan/vramplan/service"
)

// entryOp is what a client asked of an entry: to read it (memory 0), to create or replace it, or to delete it.
type entryOp struct {
	id     string
	memory int64
	delete bool
	known  string // the version that it was to have; empty where it was to be absent
}

// entrySeen is what the client was told: the version, that what it knew was wrong, or that the database did not confirm
// the change, which may then be made until the end.
type entrySeen struct {
	version string
	refused bool
	unknown bool
}

// entryModel is one entry as a client may think of it: absent, or of a version. No version comes twice. A change that
// was not confirmed may have been made, with a version that nobody was told: the state is then that of an unseen one.
var entryModel = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byID := map[string][]porcupine.Operation{}
		for _, o := range history {
			id := o.Input.(entryOp).id
			byID[id] = append(byID[id], o)
		}
		var parts [][]porcupine.Operation
		for _, p := range byID {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() []any { return []any{""} },
	Step: func(state, input, output any) []any {
		now, op, seen := state.(string), input.(entryOp), output.(entrySeen)
		matches := op.known == now || now == unseen && op.known != ""
		switch {
		case op.memory == 0 && !op.delete:
			if seen.version == now || now == unseen && seen.version != "" {
				return []any{seen.version}
			}
		case seen.refused:
			if op.known != now {
				return []any{now}
			}
		case seen.unknown && !matches:
			return []any{now}
		case seen.unknown && op.delete:
			return []any{now, ""}
		case seen.unknown:
			return []any{now, unseen}
		case matches && op.delete && now != "":
			return []any{""}
		case matches && !op.delete && seen.version != now:
			return []any{seen.version}
		}
		return nil
	},
}

// unseen is the state of an entry whose version nobody was told.
const unseen = "unseen"

// However many change the catalog at once, on one replica or several, there is an order in which each saw what the one
// before it had left.
func TestCatalogWritesAreLinearizable(t *testing.T) {
	db := sqlite(t)
	var mu sync.Mutex
	var history []porcupine.Operation
	began := time.Now()
	var clients sync.WaitGroup
	for client := range 4 {
		s := service.New(service.EmbeddedCatalog(), service.WithStore(db))
		random := rand.New(rand.NewPCG(7, uint64(client)))
		clients.Go(func() {
			known := map[string]string{}
			for range 30 {
				id := fmt.Sprintf("card-%d", random.IntN(2))
				op := entryOp{id: id, known: known[id]}
				var seen entrySeen
				call := time.Since(began).Nanoseconds()
				var err error
				switch n := random.IntN(4); {
				case n == 0:
					// A read asks the database, as a replica does that follows it.
					if s.Refresh(t.Context()) != nil {
						continue // not answered
					}
					if g, missing := s.GPU(t.Context(), id); missing == nil {
						seen.version = g.Version()
					}
				case n == 1 && op.known != "":
					op.delete = true
					err = s.DeleteEntry(t.Context(), operator, service.GPUEntryKind, id,
						service.Precondition{Versions: []string{op.known}})
				default:
					op.memory = 1 << 30 * (1 + random.Int64N(64))
					when := service.Precondition{Absent: op.known == ""}
					if op.known != "" {
						when.Versions = []string{op.known}
					}
					g, _, failed := s.PutGPU(t.Context(), operator, id,
						service.GPUEntry{Name: id, MemoryBytes: op.memory}, when)
					if err = failed; err == nil {
						seen.version = g.Version()
					}
				}
				switch service.ErrorCode(err) {
				case service.CodePreconditionFailed, service.CodeNotFound:
					seen, err = entrySeen{refused: true}, nil
				}
				returned := time.Since(began).Nanoseconds()
				// A slow disk may keep a change waiting for longer than the service does.
				if _, nothing := errors.AsType[*service.NotStored](err); nothing {
					continue
				}
				if service.ErrorCode(err) == service.CodeUnavailable {
					seen, err, returned = entrySeen{unknown: true}, nil, math.MaxInt64
				}
				if err != nil {
					t.Errorf("%+v: %v", op, err)
					return
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: len(history), Input: op, Call: call,
					Output: seen, Return: returned})
				mu.Unlock()
				if seen.refused || seen.unknown { // look again before the next try
					known[id] = ""
					if s.Refresh(t.Context()) == nil {
						if g, missing := s.GPU(t.Context(), id); missing == nil {
							known[id] = g.Version()
						}
					}
				} else {
					known[id] = seen.version
				}
			}
		})
	}
	clients.Wait()
	if len(history) < 30 {
		t.Errorf("only %d operations of 120 were answered: that shows nothing", len(history))
	}
	model := entryModel.ToModel()
	if got := porcupine.CheckOperationsTimeout(model, history, time.Minute); got != porcupine.Ok {
		t.Errorf("%d operations: %s", len(history), got)
	}
	// The check can fail: a change that was acknowledged twice for one version has no such order.
	wrong := []porcupine.Operation{
		{ClientId: 0, Input: entryOp{id: "x", memory: 1}, Call: 0, Output: entrySeen{version: "user-1"}, Return: 10},
		{ClientId: 1, Input: entryOp{id: "x", memory: 2}, Call: 20, Output: entrySeen{version: "user-2"}, Return: 30},
	}
	if porcupine.CheckOperations(model, wrong) {
		t.Error("a lost update is called linearizable")
	}
}
