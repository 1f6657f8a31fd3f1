package api

import (
	"context"
	"crypto/sha256"
	"math"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/service"
)

const (
	// admissionTimes is how many times the rate of another client an API server may ask.
	admissionTimes = 10
	// burstSeconds is for how long a client that was quiet may get its bytes at once.
	burstSeconds = 4
	// rememberedClients bounds the clients whose use is counted. Who was quiet longest is forgotten, and begins anew.
	rememberedClients = 16384
	// refusedKeys are the keys that one client may have refused at once, and one more every second.
	refusedKeys = 20
	// goodKeys bounds the keys that are known to have been good.
	goodKeys = 1024
)

// clients counts what each client takes beside jobs and connections: bytes of answers, lines of batches, and keys
// that are none.
type clients struct {
	limits Limits
	mu     sync.Mutex
	byName *lru.Cache[string, *clientUse]
	// good are digests of keys that were accepted: who comes with one of them need not suffer for others at its
	// address.
	good *lru.Cache[[sha256.Size]byte, struct{}]
}

// clientUse is what one client may still have.
type clientUse struct {
	bytes *rate.Limiter
	// lines is nil where there is no limit of the rate.
	lines   *rate.Limiter
	refused *rate.Limiter
}

func newClients(l Limits) *clients {
	c := &clients{limits: l}
	c.byName, _ = lru.New[string, *clientUse](rememberedClients) // its error is about a size below 1
	c.good, _ = lru.New[[sha256.Size]byte, struct{}](goodKeys)
	return c
}

func (c *clients) of(name string) *clientUse {
	c.mu.Lock()
	defer c.mu.Unlock()
	if use, ok := c.byName.Get(name); ok {
		return use
	}
	perSecond := c.limits.BytesOutPerSecond
	use := &clientUse{
		bytes:   rate.NewLimiter(rate.Limit(perSecond), int(min(burstSeconds*perSecond, math.MaxInt))),
		refused: rate.NewLimiter(1, refusedKeys),
	}
	if r := c.limits.RatePerSecond; r > 0 {
		use.lines = rate.NewLimiter(rate.Limit(r), int(min(math.Ceil(r), math.MaxInt32)))
	}
	c.byName.Add(name, use)
	return use
}

// sent counts bytes of an answer. The answer that goes beyond the limit is still sent; the next one is refused.
func (c *clients) sent(name string, bytes int) {
	bucket := c.of(name).bytes
	bucket.ReserveN(time.Now(), min(bytes, bucket.Burst()))
}

// wait is how long a client has to wait until it may have more bytes.
func (c *clients) wait(name string) time.Duration {
	bucket := c.of(name).bytes
	if missing := -bucket.Tokens(); missing > 0 {
		return time.Duration(missing / float64(bucket.Limit()) * float64(time.Second))
	}
	return 0
}

// pace counts bytes of a batch and waits until its client may have them: lines that were asked for are not lost. It is
// false where ctx ended first.
func (c *clients) pace(ctx context.Context, name string, bytes int) bool {
	bucket := c.of(name).bytes
	return bucket.WaitN(ctx, min(bytes, bucket.Burst())) == nil
}

// turn waits until the next line of a client's batch may be worked on, which counts as a request.
func (c *clients) turn(ctx context.Context, name string) bool {
	lines := c.of(name).lines
	return lines == nil || lines.Wait(ctx) == nil
}

// withinBytesOut refuses a client that has had more bytes than it may.
func (a *API) withinBytesOut(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait := a.clients.wait(senderOf(r)); wait > 0 {
			p := problem.New(problem.RateLimited, "More than %d bytes of answers a second for one client.",
				a.limits.BytesOutPerSecond)
			p.RetryAfterSeconds = max(1, int(math.Ceil(wait.Seconds())))
			a.metrics.shed.WithLabelValues("bytes").Inc()
			a.refuse(w, r, p)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authorize asks the service whose key this is. Whoever guesses keys is told to come back before it is looked
// for; a key that was accepted before is looked for all the same.
func (a *API) authorize(r *http.Request, token string, scope service.Scope) (service.Author, error) {
	digest, refused := sha256.Sum256([]byte(token)), a.clients.of(senderOf(r)).refused
	if token != "" && refused.Tokens() < 1 && !a.clients.good.Contains(digest) {
		a.metrics.shed.WithLabelValues("keys").Inc()
		p := problem.New(problem.RateLimited, "More than %d API keys of one client were refused in a short time.",
			refusedKeys)
		p.RetryAfterSeconds = 1
		return service.Author{}, p
	}
	by, err := a.service.Authorize(r.Context(), token, scope)
	switch {
	case token == "":
	case err == nil, service.ErrorCode(err) == service.CodeForbidden:
		a.clients.good.Add(digest, struct{}{})
	case service.ErrorCode(err) == service.CodeUnauthorized:
		a.clients.good.Remove(digest)
		refused.Allow()
	}
	return by, err
}
