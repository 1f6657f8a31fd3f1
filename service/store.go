package service

import (
	"context"
	"time"

	"github.com/vramplan/vramplan/service/catalog"
)

// Store is what the service needs of a database. All of its methods are durable: what
// they have returned without an error is there after a crash.
type Store interface {
	// CatalogMark changes with every change of the catalog, and is cheap to ask for.
	CatalogMark(ctx context.Context) (string, error)
	// Catalog reads everything that is in the catalog at one moment.
	Catalog(ctx context.Context) (*catalog.Contents, error)
	// ChangeCatalog makes the one change that decide asks for, and notes it in the
	// history, or returns decide's error and does nothing. Nobody else changes the
	// catalog between what decide sees and the change. decide may be called again
	// where the database gave way to another transaction. The result is the change's
	// number, which is the new revision of its entry.
	ChangeCatalog(ctx context.Context, decide func(now *catalog.Contents) (*CatalogChange, error)) (int64, error)
	// CatalogHistory lists changes, the newest first.
	CatalogHistory(ctx context.Context, f HistoryFilter) ([]HistoryEntry, error)

	// AddObservations stores all observations or none. Where one with the same key and
	// idempotency key is there already, that one takes the new one's place in the result.
	AddObservations(ctx context.Context, list []StoredObservation) ([]StoredObservation, error)
	// Observations lists observations, the newest first; more says that there may be older ones.
	Observations(ctx context.Context, f ObservationFilter) (list []Observation, more bool, err error)
	// ObservationMark changes with every observation that is added or deleted, and is cheaper to ask for than they are.
	ObservationMark(ctx context.Context) (ObservationMark, error)
	// DeleteObservation deletes one, and reports whether it was there.
	DeleteObservation(ctx context.Context, id string) (bool, error)
	// DropObservations deletes up to limit of those whose ids come before one, the oldest first, and says how many.
	DropObservations(ctx context.Context, before string, limit int) (int64, error)

	// AddCalibration stores the calibration that name makes for the next number, unless there is one with the same
	// digest: then that one is the result, and known. name may be called again where the database gave way to another
	// transaction.
	AddCalibration(ctx context.Context, digest string, name func(number int64) *Calibration) (c *Calibration,
		known bool, err error)
	// Calibration finds a calibration, and how many bytes it takes in JSON; nil where there is none.
	Calibration(ctx context.Context, id string) (c *Calibration, bytes int, err error)
	// EachCalibration hands so many calibrations to do, the newest first, until it wants no more.
	EachCalibration(ctx context.Context, limit int, do func(c *Calibration, bytes int) (more bool, err error)) error
	// Calibrations lists summaries of calibrations, the newest first.
	Calibrations(ctx context.Context, f CalibrationFilter) ([]Calibration, error)
	// Activate notes the activation that decide makes of up to look of the newest ones, the newest first, under the
	// next number; or returns decide's error and does nothing. Nobody else activates between what decide sees and the
	// activation. decide may be called again where the database gave way to another transaction.
	Activate(ctx context.Context, look int, decide func(newest []Activation) (*Activation, error)) (*Activation, error)
	// Activations lists what was activated, the newest first.
	Activations(ctx context.Context, f CalibrationFilter) ([]Activation, error)
	// CalibrationMark says what there is, and is cheap to ask for.
	CalibrationMark(ctx context.Context) (CalibrationMark, error)
	// ActiveCalibration is what the activation of that number chose; nil where that is the built-in one.
	ActiveCalibration(ctx context.Context, activation int64) (*Calibration, error)

	// CreateKey stores a new API key.
	CreateKey(ctx context.Context, k Key) error
	// Key finds an API key, revoked or not; nil where there is none.
	Key(ctx context.Context, id string) (*Key, error)
	// Keys lists all API keys, the oldest first.
	Keys(ctx context.Context) ([]Key, error)
	// RevokeKey ends a key, and reports whether there is one that it could end.
	RevokeKey(ctx context.Context, id string, at time.Time) (bool, error)

	// Check looks at everything, as long as that takes.
	Check(ctx context.Context) (*StoreCheck, error)

	// WritesRefused says since when every write has failed, and why the last one did; zero while writes succeed.
	WritesRefused() (since time.Time, reason error)
	// ProbeWrite makes a write that changes nothing, to see whether writes succeed again.
	ProbeWrite(ctx context.Context) error
}

// ObservationMark says which observations there are.
type ObservationMark struct {
	Count  int64
	Newest string
}

// CalibrationMark changes with every calibration and activation.
type CalibrationMark struct {
	// Versions is the number of the newest calibration, Activations that of the last activation; 0 before the first.
	Versions, Activations int64
}

// EntryKind says which list of the catalog an entry is in.
type EntryKind string

// The kinds.
const (
	GPUEntryKind   EntryKind = "gpu"
	ModelEntryKind EntryKind = "model"
)

// String is the kind as messages call it.
func (k EntryKind) String() string {
	if k == GPUEntryKind {
		return "GPU"
	}
	return string(k)
}

// Action says what a change did to an entry, as readers of the catalog saw it.
type Action string

// The actions. An entry of a user's that takes the place of a built-in one replaces it;
// deleting that one brings the built-in one back.
const (
	Created  Action = "create"
	Replaced Action = "replace"
	Deleted  Action = "delete"
)

// CatalogChange is one change of one entry by a user. One of GPU and Model is the
// new entry, unless Action is Deleted.
type CatalogChange struct {
	Kind   EntryKind
	ID     string
	Action Action
	GPU    *catalog.GPU
	Model  *catalog.Model
	By     Author
	At     time.Time
}

// Author is who made a change: the API key that the request came with.
type Author struct {
	KeyID string `json:"key_id" example:"k7q2mzx4ab"`
	Name  string `json:"name" example:"ci"`
}

// StoreCheck is what a store found when it looked at all that it holds.
type StoreCheck struct {
	// Faults say what is not as the service wrote it, by row; Count counts more than are named.
	Faults []string
	Count  int
	// Writes counts the writes of each table. They never become fewer, unless an older state was put back.
	Writes map[string]int64
}
