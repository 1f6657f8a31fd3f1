package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/vramplan/vramplan/hub"
	"github.com/vramplan/vramplan/service"
)

// hubFlag is of the commands that answer for a model.
type hubFlag struct {
	Hub bool `help:"Ask the Hugging Face Hub (HF_ENDPOINT, with HF_TOKEN) for the config.json of a model that neither the catalog nor the local cache has."`
}

// AfterApply is called by kong when the flag was read: every answer of this process then looks on the Hub, too.
func (f hubFlag) AfterApply(t *terminal) error {
	t.models.ask = f.Hub
	return nil
}

// locally refuses to ask the Hub where a service answers, which decides by itself what it asks.
func (f hubFlag) locally(server string) error {
	if f.Hub && server != "" {
		return usage("--hub is for answers of this process, and %s answers here: leave --server (VRAMPLAN_SERVER) out, "+
			"or start that service with --hub-models", server)
	}
	return nil
}

// hubModels finds models by their names on the Hub: in this user's cache, and where that is asked for, on the Hub.
type hubModels struct {
	ask    bool
	once   sync.Once
	finder *hub.Finder
	err    error
}

// hubClient asks the Hub of the environment.
func hubClient(lookup func(string) (string, bool), o hub.Options) (*hub.Client, error) {
	o.Endpoint, _ = lookup("HF_ENDPOINT")
	o.Token, _ = lookup("HF_TOKEN")
	return hub.NewClient(o)
}

// find looks for a model that the catalog does not have.
func (t *terminal) find(ctx context.Context, name string) (*service.FoundModel, error) {
	m := t.models
	m.once.Do(func() {
		m.finder = &hub.Finder{Dir: hub.CacheDir(t.lookup)}
		if !m.ask {
			return
		}
		if offline, _ := t.lookup("HF_HUB_OFFLINE"); offline != "" && offline != "0" {
			m.err = errors.New("--hub asks the Hub, and HF_HUB_OFFLINE forbids it")
			return
		}
		m.finder.Client, m.err = hubClient(t.lookup, hub.Options{})
	})
	if m.err != nil {
		return nil, m.err
	}
	found, err := foundBy(ctx, m.finder, name)
	if err != nil && !m.ask {
		if !strings.Contains(name, "/") {
			return nil, nil // a name of the catalog with a slip more often than one of the Hub
		}
		err = fmt.Errorf("%w; --hub asks the Hub for it", err)
	}
	return found, err
}

// foundBy is what a finder finds, as a service takes it.
func foundBy(ctx context.Context, finder *hub.Finder, name string) (*service.FoundModel, error) {
	config, err := finder.Find(ctx, name)
	if config == nil || err != nil {
		return nil, err
	}
	return &service.FoundModel{Name: name, Config: config.Text, From: config.From}, nil
}

// configuration is the config.json of a model that the catalog does not have, for the readers of other tools' files.
func (t *terminal) configuration(ctx context.Context) func(name string) (config json.RawMessage, from string) {
	return func(name string) (json.RawMessage, string) {
		found, err := t.find(ctx, name)
		if found == nil || err != nil {
			return nil, "" // the question for it says what to give
		}
		return found.Config, found.From
	}
}
