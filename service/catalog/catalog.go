package catalog

import (
	"fmt"
	"strings"
	"sync"

	"github.com/vramplan/vramplan/estimator"
)

// Loader yields the entries of a catalog. Each function is called once, at the first
// look-up that needs it: a command that asks for one model does not read the GPUs.
type Loader struct {
	GPUs   func() ([]GPU, error)
	Models func() ([]Model, error)
}

// Catalog looks up GPUs and models by name. It does not change, and it may be used
// by several goroutines.
type Catalog struct {
	revision string
	gpus     func() (*gpuIndex, error)
	models   func() (*modelIndex, error)
}

type gpuIndex struct {
	entries      []GPU
	forEstimator []estimator.GPU
	slices       []estimator.GPU
	byKey        map[string]int
	byName       map[string]int
	candidates   func() []candidate
}

type modelIndex struct {
	entries    []Model
	byKey      map[string]int
	byName     map[string]int
	byJoined   func() map[string]int
	candidates func() []candidate
}

// New makes a catalog of what load yields. The revision names its contents: answers from
// catalogs of the same revision are the same.
func New(revision string, load Loader) *Catalog {
	return &Catalog{
		revision: revision,
		gpus: sync.OnceValues(func() (*gpuIndex, error) {
			entries, err := load.GPUs()
			if err != nil {
				return nil, fmt.Errorf("load the GPU catalog: %w", err)
			}
			return indexGPUs(entries), nil
		}),
		models: sync.OnceValues(func() (*modelIndex, error) {
			entries, err := load.Models()
			if err != nil {
				return nil, fmt.Errorf("load the model catalog: %w", err)
			}
			return indexModels(entries), nil
		}),
	}
}

// Contents is everything in a catalog at one moment.
type Contents struct {
	Revision string `json:"revision"`
	// Mark is shorter than Revision: it tells the states of one database apart, not those of several.
	Mark   string  `json:"mark"`
	GPUs   []GPU   `json:"gpus"`
	Models []Model `json:"models"`
	// Faults say where the built-in entries of the database are not what was shipped. They are not used.
	Faults []string `json:"-"`
}

// Of makes a catalog of contents that are already there.
func Of(c *Contents) *Catalog {
	return New(c.Revision, Loader{
		GPUs:   func() ([]GPU, error) { return c.GPUs, nil },
		Models: func() ([]Model, error) { return c.Models, nil },
	})
}

// Revision names the catalog's contents: "c-2".
func (c *Catalog) Revision() string { return c.revision }

// Load reads everything now, and reports what is wrong with it.
func (c *Catalog) Load() error {
	if _, err := c.gpus(); err != nil {
		return err
	}
	_, err := c.models()
	return err
}

// GPUs lists the cards, in the catalog's order.
func (c *Catalog) GPUs() ([]GPU, error) {
	x, err := c.gpus()
	if err != nil {
		return nil, err
	}
	return x.entries, nil
}

// EstimatorGPUs lists the cards as the estimator takes them.
func (c *Catalog) EstimatorGPUs() ([]estimator.GPU, error) {
	x, err := c.gpus()
	if err != nil {
		return nil, err
	}
	return x.forEstimator, nil
}

// EstimatorSlices lists the MIG slices of all cards as the estimator takes them.
func (c *Catalog) EstimatorSlices() ([]estimator.GPU, error) {
	x, err := c.gpus()
	if err != nil {
		return nil, err
	}
	return x.slices, nil
}

// Models lists the models, in the catalog's order.
func (c *Catalog) Models() ([]Model, error) {
	x, err := c.models()
	if err != nil {
		return nil, err
	}
	return x.entries, nil
}

// GPU finds a card by id, alias, the name that nvidia-smi prints, a Kubernetes product label, the name of a MIG slice,
// with its card or without, a size such as 12GB, or an instance type of a cloud. The error is an *UnknownError where no
// card has the name.
func (c *Catalog) GPU(name string) (*GPU, error) {
	x, err := c.gpus()
	if err != nil {
		return nil, err
	}
	if i, ok := x.byName[name]; ok {
		return &x.entries[i], nil
	}
	key := GPUKey(name)
	if i, ok := x.byKey[key]; ok {
		return &x.entries[i], nil
	}
	if card, profile, ok := splitMIG(name); ok {
		if i, ok := x.byKey[card]; ok {
			g := &x.entries[i]
			if s, ok := g.slice(profile); ok {
				return s, nil
			}
			r, _, err := x.sliceOfFamily(name, card, profile, g)
			return r.card, err
		}
		key = card
	}
	switch r, ok, err := x.read(name); {
	case err != nil:
		return nil, err
	case ok:
		return r.card, nil
	}
	unknown := &UnknownError{Kind: "GPU", Name: name}
	if i, count, ok := x.counted(name); ok {
		unknown.Reason = fmt.Sprintf("it says a count: the card alone is %s, and how many GPUs a job runs on is "+
			"training.distributed.world_size, --world-size %s on the command line", x.entries[i].ID, count)
		return nil, unknown
	}
	for _, i := range nearest(key, x.candidates()) {
		unknown.Nearest = append(unknown.Nearest, x.entries[i].ID)
	}
	return nil, unknown
}

// Model finds a model by id, alias, or the part of its id after the slash where only
// one model has it, by the names of mirrors that are surely of the same shapes, and as people say its name. The error
// is an *UnknownError where no model has the name.
func (c *Catalog) Model(name string) (*Model, error) {
	x, err := c.models()
	if err != nil {
		return nil, err
	}
	if m := x.written(name); m != nil {
		return m, nil
	}
	key := ModelKey(name)
	for _, said := range spoken(key) {
		if i, ok := x.byKey[said]; ok {
			return &x.entries[i], nil
		}
		if i, ok := x.byKey[mirrorNamed(said)]; ok {
			return &x.entries[i], nil
		}
	}
	unknown := &UnknownError{Kind: "model", Name: name}
	// Organisations are mistaken more often than names: the name is compared first.
	found := nearest(lastComponent(key), x.candidates())
	if len(found) == 0 {
		found = nearest(key, x.candidates())
	}
	for _, i := range found {
		unknown.Nearest = append(unknown.Nearest, x.entries[i].ID)
	}
	return nil, unknown
}

// written is the model of a name as a file has it, where a word of two may be a folder; nil where no model has it.
func (x *modelIndex) written(name string) *Model {
	if i, ok := x.byName[name]; ok {
		return &x.entries[i]
	}
	key := ModelKey(name)
	if i, ok := x.byKey[key]; ok {
		return &x.entries[i]
	}
	if i, ok := x.byKey[mirrorOf(key)]; ok {
		return &x.entries[i]
	}
	if i, ok := x.byJoined()[joined(key)]; ok && i != ambiguous {
		return &x.entries[i]
	}
	return nil
}

func indexGPUs(entries []GPU) *gpuIndex {
	x := &gpuIndex{entries: entries, forEstimator: make([]estimator.GPU, len(entries)),
		byKey: make(map[string]int, 4*len(entries))}
	for i := range entries {
		x.forEstimator[i] = entries[i].ForEstimator()
		for k := range entries[i].MIGProfiles {
			if slice, ok := entries[i].slice(entries[i].MIGProfiles[k].Name); ok {
				x.slices = append(x.slices, slice.ForEstimator())
			}
		}
	}
	names := make([][]string, len(entries))
	for i := range entries {
		names[i] = append([]string{entries[i].Name}, entries[i].Aliases...)
	}
	fill(x.byKey, len(entries), GPUKey,
		func(i int) (string, Origin, []string) { return entries[i].ID, entries[i].Origin, names[i] })
	x.byName = asWritten(x.byKey, len(entries), GPUKey, func(i int) []string {
		return append([]string{entries[i].ID}, names[i]...)
	})
	x.candidates = sync.OnceValue(func() []candidate { return candidates(x.byKey) })
	return x
}

func indexModels(entries []Model) *modelIndex {
	x := &modelIndex{entries: entries, byKey: make(map[string]int, 4*len(entries))}
	fill(x.byKey, len(entries), ModelKey,
		func(i int) (string, Origin, []string) { return entries[i].ID, entries[i].Origin, entries[i].Aliases })
	addLastComponents(x.byKey)
	x.byName = asWritten(x.byKey, len(entries), ModelKey, func(i int) []string {
		return append([]string{entries[i].ID}, entries[i].Aliases...)
	})
	x.candidates = sync.OnceValue(func() []candidate { return candidates(x.byKey) })
	x.byJoined = sync.OnceValue(func() map[string]int {
		byJoined := make(map[string]int, len(x.byKey))
		for key, i := range x.byKey {
			if other, taken := byJoined[joined(key)]; taken && other != i {
				i = ambiguous
			}
			byJoined[joined(key)] = i
		}
		return byJoined
	})
	return x
}

// fill gives every name to one entry. An id goes before another entry's alias, and what
// a user added before what is built in.
func fill(byKey map[string]int, n int, key func(string) string,
	entry func(int) (id string, origin Origin, names []string)) {
	for _, origin := range []Origin{User, Builtin} {
		for i := range n {
			if id, o, _ := entry(i); (o == User) == (origin == User) {
				claim(byKey, key(id), i)
			}
		}
	}
	for _, origin := range []Origin{User, Builtin} {
		for i := range n {
			if _, o, names := entry(i); (o == User) == (origin == User) {
				for _, name := range names {
					claim(byKey, key(name), i)
				}
			}
		}
	}
}

// asWritten is where names lead as the catalog writes them: most requests do, and need not put them into their keys.
func asWritten(byKey map[string]int, n int, key func(string) string, names func(int) []string) map[string]int {
	byName := make(map[string]int, len(byKey))
	for i := range n {
		for _, name := range names(i) {
			if entry, ok := byKey[key(name)]; ok {
				byName[name] = entry
			}
		}
	}
	return byName
}

func claim(byKey map[string]int, key string, entry int) {
	if _, taken := byKey[key]; !taken && key != "" {
		byKey[key] = entry
	}
}

// ambiguous stands where a short name could mean several entries.
const ambiguous = -1

// addLastComponents lets "Llama-3.1-8B" mean meta-llama/Llama-3.1-8B, unless two
// models end alike.
func addLastComponents(byKey map[string]int) {
	last := map[string]int{}
	for key, entry := range byKey {
		if !strings.Contains(key, "/") {
			continue
		}
		short := lastComponent(key)
		if other, ok := last[short]; ok && other != entry {
			entry = ambiguous
		}
		last[short] = entry
	}
	for short, entry := range last {
		if entry != ambiguous {
			claim(byKey, short, entry)
		}
	}
}

func candidates(byKey map[string]int) []candidate {
	list := make([]candidate, 0, len(byKey))
	for key, entry := range byKey {
		list = append(list, candidate{key, entry})
	}
	return list
}
