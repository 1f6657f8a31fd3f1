package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"
)

// schema is what the migrations make: tables with their columns. Beside them a database may have what others put there.
var schema = map[string][]string{
	"gpus":            {"id", "origin", "position", "document", "revision", "created_at", "updated_at"},
	"gpu_aliases":     {"alias", "origin", "gpu_id", "position", "note"},
	"models":          {"id", "origin", "position", "document", "revision", "created_at", "updated_at"},
	"model_aliases":   {"alias", "origin", "model_id", "position", "note"},
	"catalog_state":   {"id", "builtin", "user_changes"},
	"catalog_edition": {"id", "digest"},
	"catalog_history": {"change_number", "kind", "entry_id", "action", "key_id", "key_name", "changed_at",
		"document"},
	"api_keys":                {"id", "name", "hash", "scopes", "created_at", "expires_at", "revoked_at"},
	"observations":            {"id", "key_id", "idempotency_key", "request_digest", "gpu", "family", "document"},
	"calibrations":            {"number", "id", "digest", "summary", "document"},
	"calibration_activations": {"number", "calibration_id", "key_id", "key_name", "activated_at"},
	"calibration_decisions":   {"activation", "refused", "reason"},
	"calibration_state":       {"id", "versions", "activations"},
	"row_digests":             {"table_name", "row_key", "digest"},
	"table_digests":           {"table_name", "writes", "row_count", "digest"},
}

// indexes are those that the migrations make by name. Three of them keep rows unique.
var indexes = []string{"gpu_aliases_by_gpu", "model_aliases_by_model", "catalog_history_by_entry", "observations_once",
	"observations_by_group", "calibrations_by_id", "calibrations_by_digest"}

// verifySchema compares the tables, their columns and indexes with those that the migrations make, and finds triggers,
// of which they make none.
func (s *Store) verifySchema(ctx context.Context, tx *sql.Tx, r *Report) error {
	columns, index, trigger := `
SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = current_schema()`,
		`SELECT indexname FROM pg_indexes WHERE schemaname = current_schema()`,
		`SELECT event_object_table || '.' || trigger_name FROM information_schema.triggers WHERE trigger_schema = current_schema()`
	if s.dialect.goose == goose.DialectSQLite3 {
		columns = `SELECT m.name || '.' || c.name FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table'`
		index = `SELECT name FROM sqlite_master WHERE type = 'index'`
		trigger = `SELECT tbl_name || '.' || name FROM sqlite_master WHERE type = 'trigger'`
	}
	hasColumns, err := names(ctx, tx, columns)
	if err != nil {
		return err
	}
	for _, table := range slices.Sorted(maps.Keys(schema)) {
		for _, column := range schema[table] {
			if !hasColumns[table+"."+column] {
				r.add(table, "", "it has no column %s", column)
			}
		}
	}
	hasIndexes, err := names(ctx, tx, index)
	if err != nil {
		return err
	}
	for _, name := range indexes {
		if !hasIndexes[name] {
			r.add("", "", "the index %s is missing", name)
		}
	}
	triggers, err := names(ctx, tx, trigger)
	if err != nil {
		return err
	}
	for name := range triggers {
		if table, of, _ := strings.Cut(name, "."); schema[table] != nil {
			r.add(table, "", "it has a trigger %s, which no migration makes", of)
		}
	}
	return nil
}

func names(ctx context.Context, tx *sql.Tx, query string) (map[string]bool, error) {
	found := map[string]bool{}
	err := each(ctx, tx, query, nil, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		found[name] = true
		return err
	})
	return found, err
}

// verifyMigrations says which migrations have not run, and which ran that this program does not know.
func (s *Store) verifyMigrations(ctx context.Context, r *Report) (missing bool, err error) {
	var applied []int64
	err = s.inspect(ctx, r, "goose_db_version", func(ctx context.Context, tx *sql.Tx, _ *Report) error {
		applied = nil
		return each(ctx, tx, `SELECT version_id FROM goose_db_version WHERE version_id > 0 AND is_applied ORDER BY id`,
			nil, func(rows *sql.Rows) error {
				var version int64
				err := rows.Scan(&version)
				applied = append(applied, version)
				return err
			})
	})
	if err != nil || r.Count > 0 {
		return true, err
	}
	provider, err := s.provider()
	if err != nil {
		return true, err
	}
	known := map[int64]bool{}
	for _, source := range provider.ListSources() {
		known[source.Version] = true
		if !slices.Contains(applied, source.Version) {
			missing = true
			r.add("goose_db_version", fmt.Sprint(source.Version),
				"this migration has not run: vramplan migrate runs it")
		}
	}
	for _, version := range applied {
		if !known[version] {
			r.add("goose_db_version", fmt.Sprint(version), "this program does not know the migration: it is older "+
				"than the database")
		}
	}
	return missing, nil
}
