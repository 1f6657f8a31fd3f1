package catalog

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

// Instance is a machine of a cloud and the cards in it.
type Instance struct {
	Type  string `json:"type"`
	Cloud string `json:"cloud"`
	// GPU is the id of its card; empty where the catalog does not have it, and Other is then what the cloud calls it.
	GPU   string `json:"gpu"`
	Other string `json:"other,omitempty"`
	// Count is how many of them it has; 0 where the source does not say.
	Count int `json:"count"`
	// ShareMiB is the part of a card's memory that an instance with a part of one gets; 0 for whole cards.
	ShareMiB int64 `json:"share_mib,omitempty"`
	// Source is a position in the file's list of sources.
	Source int `json:"source"`
}

//go:embed data/instances.json
var instancesFile []byte

// instances are by their name in lower case; those with a * in it stand for a series.
var instances = sync.OnceValues(func() (map[string]Instance, error) {
	var file struct {
		Sources   []string   `json:"sources"`
		Instances []Instance `json:"instances"`
	}
	if err := json.Unmarshal(instancesFile, &file); err != nil {
		return nil, fmt.Errorf("read the instance types: %w", err)
	}
	all := make(map[string]Instance, len(file.Instances))
	for _, i := range file.Instances {
		all[strings.ToLower(i.Type)] = i
	}
	return all, nil
})

// instanceOf finds an instance type of AWS, Google, Azure or Lambda.
func instanceOf(name string) (Instance, bool, error) {
	all, err := instances()
	if err != nil {
		return Instance{}, false, err
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if i, ok := all[name]; ok {
		return i, true, nil
	}
	// A series has a number in the place of its *: Standard_NC16as_T4_v3.
	start := strings.IndexAny(name, "0123456789")
	if start < 0 {
		return Instance{}, false, nil
	}
	end := start
	for end < len(name) && name[end] >= '0' && name[end] <= '9' {
		end++
	}
	i, ok := all[name[:start]+"*"+name[end:]]
	return i, ok, nil
}

// card is the card of an instance, with a note that says how many there are.
func (x *gpuIndex) card(i Instance, name string) (*GPU, error) {
	at, ok := x.byKey[GPUKey(i.GPU)]
	if i.GPU == "" || !ok {
		what := i.Other
		if what == "" {
			what = i.GPU
		}
		if what == "" {
			what = "a card that its source does not name"
		}
		return nil, &UnknownError{Kind: "GPU", Name: name, Reason: fmt.Sprintf("the instance has %s, which the "+
			"catalog does not have", what)}
	}
	g := &x.entries[at]
	if i.ShareMiB > 0 {
		part := WithMemory(i.Type, i.ShareMiB*MiB, g)
		part.AliasNotes = map[string]string{name: fmt.Sprintf("The instance has a part of one %s, with %d MiB.", g.ID,
			i.ShareMiB)}
		return part, nil
	}
	note := "The source does not say how many of them the instance has."
	if i.Count > 0 {
		note = fmt.Sprintf("The instance has %d of them.", i.Count)
	}
	if i.Count == 1 {
		note = "The instance has one."
	}
	return g.noted(name, note), nil
}

// noted is a card with what is to be said where it is meant by a name.
func (g *GPU) noted(name, note string) *GPU {
	c := *g
	c.AliasNotes = map[string]string{name: note}
	return &c
}
