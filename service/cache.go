package service

import (
	"context"
	"sync"
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
)

// cache remembers answers by a digest of everything that decides them, and lets those who ask the same at once share
// one. Its values are shared, and so for reading only. A nil *cache remembers nothing.
type cache[V any] struct {
	entries      *lru.Cache[digest, V]
	hits, misses atomic.Uint64

	mu   sync.Mutex
	open map[digest]*flight[V]
}

// flight is an answer on its way.
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

// do returns the remembered answer, that of a caller who is at it, or makes one. Errors are not remembered. The work
// ends early only when every caller who waits for it has gone: its context is not that of one of them.
func (c *cache[V]) do(ctx context.Context, key digest, answer func(context.Context) (V, error)) (V, error) {
	if c == nil || key == (digest{}) {
		return answer(ctx)
	}
	if v, ok := c.entries.Get(key); ok {
		c.hits.Add(1)
		return v, nil
	}
	c.mu.Lock()
	if f, ok := c.open[key]; ok {
		f.waiting++
		c.mu.Unlock()
		c.hits.Add(1)
		return c.wait(ctx, key, f)
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight[V]{done: make(chan struct{}), waiting: 1, cancel: cancel,
		err: &Error{Code: CodeInternal, Message: "the answer could not be made"}} // what others see if this one panics
	c.open[key] = f
	c.mu.Unlock()
	c.misses.Add(1)
	stay := context.AfterFunc(ctx, func() { c.leave(key, f) })
	defer func() {
		stay()
		cancel()
		c.mu.Lock()
		c.land(key, f)
		c.mu.Unlock()
		close(f.done)
	}()
	f.answer, f.err = answer(work)
	if f.err == nil {
		c.entries.Add(key, f.answer)
	}
	return f.answer, f.err
}

// wait is for a caller who found another at it.
func (c *cache[V]) wait(ctx context.Context, key digest, f *flight[V]) (V, error) {
	select {
	case <-f.done:
		return f.answer, f.err
	case <-ctx.Done():
		c.leave(key, f)
		var none V
		return none, ctx.Err()
	}
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
