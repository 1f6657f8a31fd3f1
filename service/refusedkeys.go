package service

import (
	"crypto/sha256"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// refusedKeysKept bounds the refused keys that are remembered.
	refusedKeysKept = 4096
	// refusedFor is how long a refused key is refused without asking. No key that was refused becomes good again,
	// unless the database is put back to an earlier state.
	refusedFor = 30 * time.Second
)

// refusedKeys remembers when keys were refused that the store did not know or that had ended, by their digests, so
// that whoever goes on asking with one costs no query. The times are the process's own: a clock that is set does not
// move them.
type refusedKeys struct {
	recent *lru.Cache[[sha256.Size]byte, time.Time]
}

func newRefusedKeys() refusedKeys {
	recent, _ := lru.New[[sha256.Size]byte, time.Time](refusedKeysKept) // its error is about a size below 1
	return refusedKeys{recent}
}

func (k refusedKeys) add(token string) { k.recent.Add(sha256.Sum256([]byte(token)), time.Now()) }

func (k refusedKeys) has(token string) bool {
	at, ok := k.recent.Get(sha256.Sum256([]byte(token)))
	return ok && time.Since(at) < refusedFor
}
