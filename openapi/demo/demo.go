// Package demo is the service on which those examples of the OpenAPI document are
// recorded and tested that need a database: a new one each time, with a key and an
// entry that users made.
package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"time"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/store"
)

// Key is a key that may do everything, and exists in the demonstration only.
const Key = "vrp_examplekey_EXAMPLEEXAMPLEEXAMPLEEXAMP"

// ReadKey is a key that may not change the catalog.
const ReadKey = "vrp_otherkeyaa_EXAMPLEEXAMPLEEXAMPLEEXAMP"

// LabCard is the entry of the demonstration; its version is user-1.
const LabCard = "lab-card"

var (
	began = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	ci    = service.Author{KeyID: "examplekey", Name: "ci"}
)

// New makes a demonstration in an empty folder.
func New(ctx context.Context, folder string) (s *service.Service, end func() error, err error) {
	db, err := store.Open(ctx, "file:"+filepath.Join(folder, "demo.db"))
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	if _, err := db.Migrate(ctx); err != nil {
		return nil, nil, err
	}
	for _, k := range []service.Key{
		{ID: "examplekey", Name: "ci", Hash: hash(Key), Scopes: service.Scopes(), CreatedAt: began},
		{ID: "otherkeyaa", Name: "training cluster", Hash: hash(ReadKey), Scopes: []service.Scope{service.ScopeObservationsWrite}, CreatedAt: began},
	} {
		if err := db.CreateKey(ctx, k); err != nil {
			return nil, nil, err
		}
	}
	s = service.New(service.EmbeddedCatalog(), service.WithStore(db), service.WithClock(func() time.Time { return began }))
	if err := s.Refresh(ctx); err != nil {
		return nil, nil, err
	}
	_, _, err = s.PutGPU(ctx, ci, LabCard, service.GPUEntry{Name: "Lab card", Vendor: "NVIDIA", MemoryBytes: 24 << 30, Aliases: []string{"the lab's card"}}, service.Precondition{Absent: true})
	if err != nil {
		return nil, nil, err
	}
	return s, db.Close, observe(ctx, s)
}

// observe reports two runs, so that there is something to list.
func observe(ctx context.Context, s *service.Service) error {
	for _, document := range []string{
		`{"job": {"model": {"preset": "nanogpt/train_gpt2"}, "training": {"micro_batch": 4, "precision": "amp-bf16"}, "gpus": ["rtx-4070"]},
		  "measured": {"allocated_bytes": 5600000000, "reserved_bytes": 6000000000, "device_bytes": 6500000000}, "versions": {"torch": "2.9.1"}, "source": "demonstration"}`,
		`{"job": {"model": {"preset": "nanogpt/train_gpt2"}, "training": {"micro_batch": 64, "precision": "amp-bf16"}, "gpus": ["rtx-4070"]},
		  "measured": {"out_of_memory": true}, "versions": {"torch": "2.9.1"}, "source": "demonstration"}`,
	} {
		o, err := jobdoc.DecodeObservation([]byte(document))
		if err != nil {
			return err
		}
		results, err := s.Observe(ctx, ci, []service.Sent{{Document: o}})
		if err != nil {
			return err
		}
		if results[0].Err != nil {
			return results[0].Err
		}
	}
	return nil
}

func hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
