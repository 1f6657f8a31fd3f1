package service

import (
	"sync/atomic"

	lru "github.com/hashicorp/golang-lru/v2"
)

// cache remembers answers by a digest of everything that decides them. Its
// values are shared, and so for reading only. A nil *cache remembers nothing.
type cache[V any] struct {
	entries      *lru.Cache[digest, V]
	hits, misses atomic.Uint64
}

func newCache[V any](size int) *cache[V] {
	if size <= 0 {
		return nil
	}
	entries, err := lru.New[digest, V](size)
	if err != nil { // only for a size that is not positive
		return nil
	}
	return &cache[V]{entries: entries}
}

// do returns the remembered answer or makes one. Errors are not remembered.
func (c *cache[V]) do(key digest, answer func() (V, error)) (V, error) {
	if c == nil || key == (digest{}) {
		return answer()
	}
	if v, ok := c.entries.Get(key); ok {
		c.hits.Add(1)
		return v, nil
	}
	c.misses.Add(1)
	v, err := answer()
	if err == nil {
		c.entries.Add(key, v)
	}
	return v, err
}

func (c *cache[V]) stats() CacheStats {
	if c == nil {
		return CacheStats{}
	}
	return CacheStats{Hits: c.hits.Load(), Misses: c.misses.Load(), Entries: c.entries.Len()}
}
