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

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/calibration"
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
		{ID: "otherkeyaa", Name: "training cluster", Hash: hash(ReadKey),
			Scopes: []service.Scope{service.ScopeObservationsWrite}, CreatedAt: began},
	} {
		if err := db.CreateKey(ctx, k); err != nil {
			return nil, nil, err
		}
	}
	if err := calibrate(ctx, db); err != nil {
		return nil, nil, err
	}
	s = service.New(service.EmbeddedCatalog(), service.WithStore(db), service.WithClock(func() time.Time {
		return began
	}))
	if err := s.Refresh(ctx); err != nil {
		return nil, nil, err
	}
	_, _, err = s.PutGPU(ctx, ci, LabCard, service.GPUEntry{Name: "Lab card", Vendor: "NVIDIA", MemoryBytes: 24 << 30,
		Aliases: []string{"the lab's card"}}, service.Precondition{Absent: true})
	if err != nil {
		return nil, nil, err
	}
	return s, db.Close, errors.Join(observe(ctx, s), rename(ctx, db))
}

// Calibration is the one of the demonstration. It was not activated.
const Calibration = "cal-1-5f2a9c01d7e4"

// calibrate stores a calibration as if it had been fitted to more runs than a demonstration needs.
func calibrate(ctx context.Context, db *store.Store) error {
	jobs := calibration.Key{GPU: "rtx-4070", Torch: calibration.Unnamed, Family: "nanogpt"}
	builtin, fitted := calibration.Outcome{Within: 0.8909, Bias: -0.0184, Error: 0.0186, WidthBytes: 402653184},
		calibration.Outcome{Within: 0.9636, Bias: -0.0007, Error: 0.0031, WidthBytes: 221249536}
	heldOut := calibration.HeldOutGroup{Key: jobs, Jobs: 55, Corrected: 55, Failed: 2, Builtin: builtin, Fitted: fitted}
	all := heldOut
	all.Key = calibration.Key{}
	_, _, err := db.AddCalibration(ctx, "5f2a9c01d7e4", func(number int64) *service.Calibration {
		return &service.Calibration{ID: Calibration, Number: number, CreatedAt: began, By: ci,
			Note: "after the driver of October", Estimator: estimator.Version, Base: estimator.Calibration,
			Digest: "5f2a9c01d7e4",
			Observations: service.ObservationSet{Since: "2026-10-01T00:00:00Z", First: "obs-01a1f0aa1c00m3kq7wz2xt",
				Last: "obs-01a202b2c500c5vh4ynd6e", Digest: "0b9e", Read: 61, Used: 58, Quarantined: 3},
			HeldOut: calibration.HeldOut{By: "source", Folds: 3, Confidence: 0.95, All: all,
				Groups: []calibration.HeldOutGroup{heldOut}},
			Groups: []calibration.Group{{Key: jobs, Jobs: 55, OutOfMemory: 2, ContextBytes: 104857600,
				ReservedFromBytes: 2147483648, ReservedToBytes: 10737418240, BoundedBy: 36,
				Bounds: []calibration.Bound{{Confidence: 0.5, Below: 0.25, Above: 0.25},
					{Confidence: 0.8, Below: 0.31, Above: 0.31}, {Confidence: 0.9, Below: 0.42, Above: 0.42},
					{Confidence: 0.95, Below: 0.55, Above: 0.61}}}},
			Skipped: []calibration.Skipped{{Key: calibration.Key{GPU: "rtx-4070", Torch: calibration.Unnamed,
				Family: "llama"}, Jobs: 3, Reason: "1 of its jobs say what is to be corrected, and 8 are needed; one " +
				"job in 3 is used for that"}},
		}
	})
	return err
}

// Observation is the id of the newest run.
const Observation = "obs-019abc3f1c80k7q2mzx4ab"

// rename gives the newest run an id that is known before.
func rename(ctx context.Context, db *store.Store) error {
	list, _, err := db.Observations(ctx, service.ObservationFilter{Limit: 1})
	if err != nil || len(list) == 0 {
		return errors.Join(errors.New("the demonstration has no observations"), err)
	}
	if _, err := db.DeleteObservation(ctx, list[0].ID); err != nil {
		return err
	}
	named := service.StoredObservation{Observation: list[0], Digest: "5b1e"}
	named.ID = Observation
	_, err = db.AddObservations(ctx, []service.StoredObservation{named})
	return err
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
