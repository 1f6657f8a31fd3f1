package catalog

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/model"
)

// sizeSuffix is how ids tell boards of one name apart.
var sizeSuffix = regexp.MustCompile(`-[0-9]+gb$`)

// sizeWord is the memory in a name.
var sizeWord = regexp.MustCompile(`^[0-9]+gb$`)

// GPUVariants lists the cards that a request for hardware may be answered with. A name such as
// "a100" is read as one card where a job is estimated, but a scheduler that knows its nodes by
// that name may hold boards with 40 and with 80 GB: the note on an ambiguous name says so.
// An unambiguous name stands for itself, and so does one that nobody has.
func (c *Catalog) GPUVariants(name string) ([]string, error) {
	x, err := c.gpus()
	if err != nil {
		return nil, err
	}
	key := GPUKey(name)
	entry, ok := x.byKey[key]
	if !ok {
		if r, read, err := x.read(name); err == nil && read && len(r.variants) > 0 {
			return r.variants, nil
		}
	}
	if !ok || x.entries[entry].AliasNote(name) == "" {
		return []string{name}, nil
	}
	family := GPUKey(sizeSuffix.ReplaceAllString(x.entries[entry].ID, ""))
	var variants []string
	for i := range x.entries {
		if id := GPUKey(x.entries[i].ID); i == entry || strings.HasPrefix(id, key) || strings.HasPrefix(id, family) {
			g := &x.entries[i]
			variants = append(variants, g.ID)
		}
	}
	for _, word := range gpuWords(name) {
		if !sizeWord.MatchString(word) {
			continue
		}
		// a100-80gb is no board with 40.
		sized := slices.DeleteFunc(slices.Clone(variants), func(id string) bool {
			return !strings.HasSuffix(id, "-"+word)
		})
		if len(sized) > 0 {
			return sized, nil
		}
	}
	return variants, nil
}

// Has says whether a card has this name.
func (c *Catalog) Has(name string) bool {
	_, err := c.GPU(name)
	return err == nil
}

// HasModel reports whether a name in a file is that of a model.
func (c *Catalog) HasModel(name string) bool {
	return c.written(name) != nil
}

func (c *Catalog) written(name string) *Model {
	x, err := c.models()
	if err != nil {
		return nil
	}
	return x.written(name)
}

// ModelType is model_type of a model's config.json, or the family where the model has none; "" where a name is none of
// a model's.
func (c *Catalog) ModelType(name string) string {
	m := c.written(name)
	if m == nil {
		return ""
	}
	var config struct {
		Type string `json:"model_type"`
	}
	if json.Unmarshal(m.HFConfig, &config) == nil && config.Type != "" {
		return config.Type
	}
	return m.Family
}

// ShowsPictures says of a name whether its model reads pictures among its tokens, and whether it is always trained with
// some.
func (c *Catalog) ShowsPictures(name string) (reads, always bool) {
	m := c.written(name)
	if m == nil || m.Kind != model.KindSeeing {
		return false, false
	}
	return true, !model.TrainsWithoutTower(m.Family)
}
