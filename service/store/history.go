package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"

	"github.com/vramplan/vramplan/service"
)

// CatalogHistory implements service.Store.
func (s *Store) CatalogHistory(ctx context.Context, f service.HistoryFilter) ([]service.HistoryEntry, error) {
	before := f.Before
	if before <= 0 {
		before = math.MaxInt64
	}
	history, err := list(ctx, s, scanHistory, `
SELECT change_number, kind, entry_id, action, key_id, key_name, changed_at, document FROM catalog_history
WHERE change_number < $1 AND ($2 = '' OR kind = $2) AND ($3 = '' OR entry_id = $3)
ORDER BY change_number DESC LIMIT $4`, before, string(f.Kind), f.ID, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	return history, nil
}

func scanHistory(rows *sql.Rows) (h service.HistoryEntry, err error) {
	var at string
	var document sql.NullString
	if err := rows.Scan(&h.Change, &h.Kind, &h.ID, &h.Action, &h.By.KeyID, &h.By.Name, &at, &document); err != nil {
		return h, err
	}
	if h.At, err = parseTime(at); err != nil {
		return h, fmt.Errorf("change %d: %w", h.Change, err)
	}
	if document.Valid {
		h.Entry = json.RawMessage(document.String)
	}
	return h, nil
}
