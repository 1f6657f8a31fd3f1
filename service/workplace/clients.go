package workplace

import (
	"context"
	"crypto/sha256"
	"math"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

const (
	// AdmissionTimes is how many times the rate of another client an API server may ask.
	AdmissionTimes = 10
	// burstSeconds is for how long a client that was quiet may get its bytes at once.
	burstSeconds = 4
	// rememberedClients bounds the clients whose use is counted. Who was quiet longest is forgotten, and begins anew.
	rememberedClients = 16384
	// RefusedKeys are the keys that one client may have refused at once, and one more every second.
	RefusedKeys = 20
	// goodKeys bounds the keys that are known to have been good.
	goodKeys = 1024
	// perRefusal is between two refusals of one client, and longestPause what the last of many waits at most. A client
	// that asks one thing at a time does not notice; all are told to come back after a second.
	perRefusal   = 20 * time.Millisecond
	longestPause = 2 * time.Second
)

// clients counts what each client takes beside work: requests, bytes of answers, keys that are none, and refusals.
type clients struct {
	limits Limits
	mu     sync.Mutex
	byName *lru.Cache[string, *client]
	// good are digests of keys that were accepted: who comes with one of them need not suffer for others at its
	// address.
	good *lru.Cache[[sha256.Size]byte, struct{}]
}

// client is what one client may still have.
type client struct{ requests, admissions, bytes, keys *rate.Limiter }

func newClients(l Limits) *clients {
	c := &clients{limits: l}
	c.byName, _ = lru.New[string, *client](rememberedClients) // its error is about a size below 1
	c.good, _ = lru.New[[sha256.Size]byte, struct{}](goodKeys)
	return c
}

func (c *clients) of(name string) *client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.byName.Get(name); ok {
		return known
	}
	limiter := func(perSecond, seconds float64) *rate.Limiter {
		if perSecond <= 0 {
			return rate.NewLimiter(rate.Inf, math.MaxInt)
		}
		return rate.NewLimiter(rate.Limit(perSecond), int(min(math.Ceil(seconds*perSecond), math.MaxInt32)))
	}
	r := c.limits.RatePerSecond
	own := &client{requests: limiter(r, 1), admissions: limiter(AdmissionTimes*r, 1),
		bytes: limiter(float64(c.limits.BytesOutPerSecond), burstSeconds), keys: rate.NewLimiter(1, RefusedKeys)}
	c.byName.Add(name, own)
	return own
}

// Asks counts a request of a client; wait is zero, or after what time another may come.
func (p *Place) Asks(name string, admission bool) (wait time.Duration) {
	limiter := p.clients.of(name).requests
	if admission {
		limiter = p.clients.of(name).admissions
	}
	if limiter.Allow() {
		return 0
	}
	return until(limiter, 1)
}

// Rate is what a client may ask, as whole requests in a time.
func (p *Place) Rate(admission bool) (requests int, within time.Duration) {
	perSecond := p.limits.RatePerSecond
	if admission {
		perSecond *= AdmissionTimes
	}
	requests = int(min(math.Ceil(perSecond), math.MaxInt32))
	// A rate below one in 300 years is as good as one in 300 years, and fits a Duration.
	seconds := min(float64(requests)/perSecond, 9e9)
	return requests, max(time.Millisecond, time.Duration(seconds*float64(time.Second)).Round(time.Millisecond))
}

// until is when a limiter has so many tokens again.
func until(l *rate.Limiter, tokens float64) time.Duration {
	seconds := min((tokens-l.Tokens())/float64(l.Limit()), 9e9) // which fits a Duration
	return max(time.Millisecond, time.Duration(seconds*float64(time.Second)))
}

// Line waits until the next line of a client's batch may be worked on, which counts as a request. It is false where ctx
// ended first.
func (p *Place) Line(ctx context.Context, name string) bool {
	return p.clients.of(name).requests.Wait(ctx) == nil
}

// Sent counts bytes of an answer. The answer that goes beyond the limit is still sent; the next one is refused.
func (p *Place) Sent(name string, bytes int) {
	bucket := p.clients.of(name).bytes
	bucket.ReserveN(time.Now(), min(bytes, bucket.Burst()))
}

// Unsent is how long a client has to wait until it may have more bytes.
func (p *Place) Unsent(name string) time.Duration {
	if bucket := p.clients.of(name).bytes; bucket.Tokens() < 0 {
		return until(bucket, 0)
	}
	return 0
}

// Pace counts bytes of a batch and waits until its client may have them: lines that were asked for are not lost. It is
// false where ctx ended first.
func (p *Place) Pace(ctx context.Context, name string, bytes int) bool {
	bucket := p.clients.of(name).bytes
	return bucket.WaitN(ctx, min(bytes, bucket.Burst())) == nil
}

// MayTry says whether a client may try a key: whoever guesses has to come back, and who has one that was accepted need
// not.
func (p *Place) MayTry(name, key string) bool {
	return key == "" || p.clients.of(name).keys.Tokens() >= 1 || p.clients.good.Contains(sha256.Sum256([]byte(key)))
}

// Tried counts a key that was tried.
func (p *Place) Tried(name, key string, good bool) {
	switch digest := sha256.Sum256([]byte(key)); {
	case key == "":
	case good:
		p.clients.good.Add(digest, struct{}{})
	default:
		p.clients.good.Remove(digest)
		p.clients.of(name).keys.Allow()
	}
}

// Refused waits before a client is told that there is too much to do, the longer the more of its requests wait for
// that: to read, route, refuse and log a request takes a tenth of an estimate, and a client that asks again at once
// over many connections would have the cores that way. Whatever their number, it is told so perRefusal apart.
func (p *Place) Refused(ctx context.Context, name string) {
	p.mu.Lock()
	p.refused[name]++
	pause := min(time.Duration(p.refused[name])*perRefusal, longestPause)
	p.mu.Unlock()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused[name]--; p.refused[name] == 0 {
		delete(p.refused, name)
	}
}
