package service

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/vramplan/vramplan/service/workplace"
)

// cache remembers answers by a digest of everything that decides them, and lets those who ask the same at once share
// one. Its values are shared, and so for reading only. A nil *cache remembers nothing.
type cache[V any] struct {
	entries      *lru.Cache[digest, V]
	hits, misses atomic.Uint64

	mu   sync.Mutex
	open map[digest]*flight[V]
}

// flight is an answer on its way. It is nobody's own: whoever asked first may leave while others wait for it.
type flight[V any] struct {
	done   chan struct{}
	answer V
	err    error
	// waiting is how many callers still want it; cancel ends the work when none does.
	waiting int
	cancel  context.CancelFunc
}

func newCache[V any](size int) *cache[V] {
	if size <= 0 {
		return nil
	}
	entries, err := lru.New[digest, V](size)
	if err != nil { // only for a size that is not positive
		return nil
	}
	return &cache[V]{entries: entries, open: map[digest]*flight[V]{}}
}

// do returns the remembered answer, one that is on its way, or makes one. Errors are not remembered. Answer must not
// panic.
func (c *cache[V]) do(ctx context.Context, key digest, answer func(context.Context) (V, error)) (V, error) {
	if c == nil || key == (digest{}) {
		return answer(ctx)
	}
	if v, ok := c.entries.Get(key); ok {
		c.hits.Add(1)
		return v, nil
	}
	c.mu.Lock()
	f, joined := c.open[key]
	if !joined {
		f = c.start(ctx, key, answer)
	}
	f.waiting++
	c.mu.Unlock()
	if joined {
		c.hits.Add(1)
	} else {
		c.misses.Add(1)
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		c.leave(key, f)
		var none V
		return none, ctx.Err()
	}
	if joined && errors.Is(f.err, workplace.ErrShed) {
		return c.do(ctx, key, answer) // it was another client who asked for too much
	}
	return f.answer, f.err
}

func (c *cache[V]) start(ctx context.Context, key digest, answer func(context.Context) (V, error)) *flight[V] {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight[V]{done: make(chan struct{}), cancel: cancel}
	c.open[key] = f
	go func() {
		defer cancel()
		if f.answer, f.err = answer(work); f.err == nil {
			c.entries.Add(key, f.answer)
		}
		c.mu.Lock()
		c.land(key, f)
		c.mu.Unlock()
		close(f.done)
	}()
	return f
}

// leave ends the work when it was for the last caller, and lets nobody join it any more.
func (c *cache[V]) leave(key digest, f *flight[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		c.land(key, f)
		f.cancel()
	}
}

// land takes f off the list, unless another is there by now.
func (c *cache[V]) land(key digest, f *flight[V]) {
	if c.open[key] == f {
		delete(c.open, key)
	}
}

func (c *cache[V]) stats() CacheStats {
	if c == nil {
		return CacheStats{}
	}
	return CacheStats{Hits: c.hits.Load(), Misses: c.misses.Load(), Entries: c.entries.Len()}
}
