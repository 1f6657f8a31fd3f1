package service

import (
	"context"
	"encoding/json"
	"time"
)

// HistoryFilter selects changes of the catalog; its zero value selects the newest of all.
type HistoryFilter struct {
	Kind EntryKind
	ID   string
	// Before leaves out this change and newer ones; 0 leaves out none.
	Before int64
	// Limit is how many changes are wanted at most.
	Limit int
}

// HistoryEntry is one change of the catalog that a user made.
type HistoryEntry struct {
	// Change counts the changes of this database. It is the revision of the entry after it.
	Change int64     `json:"change" example:"3"`
	Kind   EntryKind `json:"kind" example:"gpu"`
	ID     string    `json:"id" example:"lab-card"`
	Action Action    `json:"action" example:"create"`
	By     Author    `json:"by"`
	At     time.Time `json:"at" example:"2026-11-22T10:00:00Z"`
	// Entry is what the user's entry was from then on; absent after a delete.
	Entry json.RawMessage `json:"entry,omitempty" swaggertype:"object"`
}

// History lists changes of the catalog, the newest first.
func (s *Service) History(ctx context.Context, f HistoryFilter) ([]HistoryEntry, error) {
	if s.store == nil {
		return nil, noDatabase()
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	list, err := s.store.CatalogHistory(ctx, f)
	if err != nil {
		return nil, storeError(err, "the history could not be read")
	}
	return list, nil
}
