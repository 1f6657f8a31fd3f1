package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/vramplan/vramplan/service"
)

// CatalogHistory implements service.Store.
func (s *Store) CatalogHistory(ctx context.Context, f service.HistoryFilter) ([]service.HistoryEntry, error) {
	before := f.Before
	if before <= 0 {
		before = math.MaxInt64
	}
	rows, err := list(ctx, s, scanHistory, sealedHistory.rows(`WHERE t.change_number < $1 AND ($2 = '' OR t.kind = $2) AND ($3 = '' OR t.entry_id = $3)
ORDER BY t.change_number DESC LIMIT $4`), before, string(f.Kind), f.ID, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	var history []service.HistoryEntry
	for _, h := range rows {
		if !h.altered {
			history = append(history, h.HistoryEntry)
		}
	}
	return history, nil
}

// storedChange is a change as its row has it.
type storedChange struct {
	service.HistoryEntry
	altered bool // the rest is not to be used
}

func scanHistory(rows *sql.Rows) (h storedChange, err error) {
	r, err := sealedHistory.scan(rows)
	if err != nil {
		return h, err
	}
	if h.altered = r.seal == altered; h.altered {
		return h, nil
	}
	if h.Change, err = strconv.ParseInt(r.key, 10, 64); err != nil {
		return h, err
	}
	text := func(i int) string { return string(r.values[i]) }
	h.Kind, h.ID, h.Action = service.EntryKind(text(0)), text(1), service.Action(text(2))
	h.By = service.Author{KeyID: text(3), Name: text(4)}
	if h.At, err = parseTime(text(5)); err != nil {
		return h, fmt.Errorf("change %d: %w", h.Change, err)
	}
	if r.values[6] != nil {
		h.Entry = json.RawMessage(text(6))
	}
	return h, nil
}
