package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// mostKept and mostKeptBytes bound what a finder remembers.
	mostKept, mostKeptBytes = 256, 16 << 20
	// keptFor is how long an answer of the Hub is good: a branch may move. A refusal is asked again sooner, and what
	// went wrong on the way at once, nearly.
	keptFor, refusalFor, failureFor = time.Hour, time.Minute, 5 * time.Second
	// mostAsked is how many questions a Hub gets at a time, and turn how long another waits for its turn.
	mostAsked, turn = 4, 2 * time.Second
)

// Finder looks for configurations in the local cache and on a Hub, and remembers what the Hub said. It may be used by
// several goroutines.
type Finder struct {
	// Dir is the local cache, as CacheDir has it; empty looks into none.
	Dir string
	// Client asks a Hub; nil asks none.
	Client *Client
	// Allowed are patterns of names, as path.Match reads them, that the Hub may be asked about; nil is all.
	Allowed []string

	turns sync.Once
	free  chan struct{}
	mu    sync.Mutex
	kept  map[Name]*answer
	bytes int
}

// answer is what the Hub said, when done is closed.
type answer struct {
	done   chan struct{}
	config *Config
	err    error
	until  time.Time
}

// CheckPatterns says what is wrong with patterns for Finder.Allowed.
func CheckPatterns(patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" || strings.Count(p, "/") > 1 {
			return fmt.Errorf("%.100q is no pattern of names such as meta-llama/* or Qwen/Qwen3-8B", p)
		}
	}
	return nil
}

// Find looks for a model. Both results are nil where the text is no name on the Hub, or none that may be asked about.
// An error says what was tried.
func (f *Finder) Find(ctx context.Context, text string) (*Config, error) {
	n, ok := ParseName(text)
	if !ok || f.Allowed != nil && !slices.ContainsFunc(f.Allowed, func(pattern string) bool {
		match, err := path.Match(pattern, n.Repo)
		return match && err == nil
	}) {
		return nil, nil
	}
	missed := ""
	if f.Dir != "" {
		config, err := Cached(f.Dir, n)
		switch {
		case err == nil:
			return config, nil
		case errors.Is(err, fs.ErrNotExist):
			missed = fmt.Sprintf("the local Hugging Face cache (%s) has no config.json of it", f.Dir)
		default:
			missed = "the local Hugging Face cache: " + err.Error()
		}
	}
	if f.Client == nil {
		if missed == "" {
			return nil, nil
		}
		return nil, errors.New(missed)
	}
	config, err := f.ask(ctx, n)
	if err != nil && missed != "" {
		err = fmt.Errorf("%s; %w", missed, err)
	}
	return config, err
}

// ask asks the Hub, once for all who want to know at the same time.
func (f *Finder) ask(ctx context.Context, n Name) (*Config, error) {
	f.mu.Lock()
	a := f.kept[n]
	if a == nil || !a.until.IsZero() && time.Now().After(a.until) {
		f.makeRoom()
		a = &answer{done: make(chan struct{})}
		f.kept[n] = a
		go f.answer(context.WithoutCancel(ctx), n, a)
	}
	f.mu.Unlock()
	select {
	case <-a.done:
		return a.config, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// answer asks when it is its turn.
func (f *Finder) answer(ctx context.Context, n Name, a *answer) {
	f.turns.Do(func() { f.free = make(chan struct{}, mostAsked) })
	var config *Config
	err := fmt.Errorf("%s is asked much at the moment: ask again", f.Client.endpoint.Host)
	wait := time.NewTimer(turn)
	defer wait.Stop()
	select {
	case f.free <- struct{}{}:
		config, err = f.Client.Config(ctx, n)
		<-f.free
	case <-wait.C:
	}
	good := failureFor
	var refused *StatusError
	switch {
	case err == nil:
		good = keptFor
	case errors.As(err, &refused) && refused.Status < 500 && refused.Status != 429:
		good = refusalFor
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	a.config, a.err, a.until = config, err, time.Now().Add(good)
	if config != nil {
		f.bytes += len(config.Text)
	}
	close(a.done)
}

// makeRoom forgets what is no longer good, and everything that was answered where that does not suffice.
func (f *Finder) makeRoom() {
	if f.kept == nil {
		f.kept = map[Name]*answer{}
	}
	forget := func(which func(*answer) bool) {
		for n, a := range f.kept {
			if a.until.IsZero() || !which(a) {
				continue
			}
			if a.config != nil {
				f.bytes -= len(a.config.Text)
			}
			delete(f.kept, n)
		}
	}
	now := time.Now()
	forget(func(a *answer) bool { return now.After(a.until) })
	if len(f.kept) >= mostKept || f.bytes > mostKeptBytes {
		forget(func(*answer) bool { return true })
	}
}
