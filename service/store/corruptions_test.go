package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/vramplan/vramplan/service/store/pgtest"
)

// rowCorruptions are what somebody does with SQL; they are the same for all databases.
var rowCorruptions = []corruption{
	{"another digit", anotherCharacter("0123456789", "0123456789")},
	{"another letter", anotherCharacter("abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz")},
	{"a row removed", onRows(1, func(table, key string, keys []string, _ []string) string {
		return fmt.Sprintf(`DELETE FROM %s WHERE %s = '%s'`, table, key, keys[0])
	})},
	{"rows removed with their digests", func(r *rand.Rand, name string) (string, error) {
		table := sealedNames[r.IntN(len(sealedNames))]
		return statements(name, `DELETE FROM `+table[0]+` WHERE `+table[1]+` = (SELECT MAX(`+table[1]+`) FROM `+
			table[0]+`)`,
			`DELETE FROM row_digests WHERE table_name = '`+
				table[0]+`' AND row_key = (SELECT MAX(row_key) FROM row_digests WHERE table_name = '`+table[0]+`')`)
	}},
	{"two rows swapped", onRows(2, func(table, key string, keys, columns []string) string {
		return fmt.Sprintf(`UPDATE %[1]s SET %[2]s = (SELECT o.%[2]s FROM %[1]s AS o WHERE o.%[3]s = CASE %[1]s.%[3]s WHEN '%[4]s' THEN '%[5]s' ELSE '%[4]s' END LIMIT 1)
WHERE %[3]s IN ('%[4]s', '%[5]s')`, table, columns[len(columns)-1], key, keys[0], keys[1])
	})},
	{"a revoked key opened", statement(`UPDATE api_keys SET revoked_at = NULL`)},
	{"a key with more scopes",
		statement(`UPDATE api_keys SET scopes = 'catalog:write observations:write calibrations:write'`)},
	{"a key slipped in", statement(`INSERT INTO api_keys (id, name, hash, scopes, created_at) VALUES ('mine', 'x', 'x', 'catalog:write', '2026-11-22T10:00:00Z')`)},
	{"a key and its digest slipped in", func(_ *rand.Rand, name string) (string, error) {
		return statements(name,
			`INSERT INTO api_keys (id, name, hash, scopes, created_at) VALUES ('mine', 'x', 'x', 'catalog:write', '2026-11-22T10:00:00Z')`,
			`INSERT INTO row_digests (table_name, row_key, digest) VALUES ('api_keys', 'mine', (SELECT MAX(digest) FROM row_digests))`)
	}},
	{"the state put back of a key with its digest", func(_ *rand.Rand, name string) (string, error) {
		return statements(name, `DELETE FROM api_keys WHERE id = 'key-1-1'`,
			`DELETE FROM row_digests WHERE table_name = 'api_keys' AND row_key = 'key-1-1'`)
	}},
	{"the catalog's counter set back", statement(`UPDATE catalog_state SET user_changes = user_changes - 1`)},
	{"the catalog's counter set forward", statement(`UPDATE catalog_state SET user_changes = user_changes + 7`)},
	{"the calibrations' counters",
		statement(`UPDATE calibration_state SET versions = versions - 1, activations = activations + 1`)},
	{"the edition of the catalog", statement(`UPDATE catalog_edition SET digest = 'x'`)},
	{"the edition of the catalog gone", statement(`DELETE FROM catalog_edition`)},
	{"the state of the catalog gone", statement(`DELETE FROM catalog_state`)},
	{"an older activation in force", statement(`UPDATE calibration_state SET activations = 1`)},
	{"an activation of another calibration",
		statement(`UPDATE calibration_activations SET calibration_id = (SELECT MIN(id) FROM calibrations)`)},
	{"a calibration under another id", func(_ *rand.Rand, name string) (string, error) {
		return statements(name, `UPDATE calibrations SET id = 'x' WHERE number = 1`,
			`UPDATE calibrations SET id = (SELECT id FROM calibrations WHERE number = 2) || '0' WHERE number = 2`)
	}},
	{"the digest of a table gone", statement(`DELETE FROM table_digests WHERE table_name = 'observations'`)},
	{"the digests of a table gone", statement(`DELETE FROM row_digests WHERE table_name = 'observations'`)},
	{"the digest of a row", statement(`UPDATE row_digests SET digest = (SELECT MIN(digest) FROM row_digests) WHERE row_key = 'obs-01'`)},
	{"all observations gone", func(_ *rand.Rand, name string) (string, error) {
		return statements(name, `DELETE FROM observations`, `DELETE FROM row_digests WHERE table_name = 'observations'`)
	}},
	{"a user's entry and its change", func(_ *rand.Rand, name string) (string, error) {
		return statements(name, `UPDATE gpus SET document = REPLACE(document, '2001', '9001') WHERE origin = 'user'`,
			`UPDATE catalog_history SET document = REPLACE(document, '2001', '9001')`)
	}},
	{"an alias that leads elsewhere",
		statement(`UPDATE gpu_aliases SET gpu_id = 'card-1-1' WHERE origin = 'user' AND gpu_id = 'card-1-2'`)},
	{"the last change gone", func(_ *rand.Rand, name string) (string, error) {
		return statements(name,
			`DELETE FROM catalog_history WHERE change_number = (SELECT user_changes FROM catalog_state)`,
			`UPDATE catalog_state SET user_changes = user_changes - 1`)
	}},
	{"an index gone", statement(`DROP INDEX observations_once`)},
	{"a migration forgotten", statement(`DELETE FROM goose_db_version WHERE version_id = 9`)},
	{"a table gone", statement(`DROP TABLE calibration_decisions`)},
}

// sealedNames are the tables with digests, and their keys.
var sealedNames = [][2]string{{"catalog_history", "change_number"}, {"api_keys", "id"}, {"observations", "id"},
	{"calibrations", "number"},
	{"calibration_activations", "number"}, {"calibration_decisions", "activation"}}

// keyed are all tables of the service, by the column that finds rows.
var keyed = append([][2]string{{"gpus", "id"}, {"models", "id"}, {"gpu_aliases", "alias"}, {"model_aliases", "alias"},
	{"row_digests", "row_key"}, {"table_digests", "table_name"}}, sealedNames...)

func statement(text string) func(*rand.Rand, string) (string, error) {
	return func(_ *rand.Rand, name string) (string, error) { return statements(name, text) }
}

func statements(name string, texts ...string) (string, error) {
	return strings.Join(texts, "; "), beside(name, func(db *sql.DB) error {
		changed := int64(0)
		for _, text := range texts {
			result, err := db.Exec(text)
			if err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			if changed += n; strings.HasPrefix(text, "DROP") {
				changed++
			}
		}
		if changed == 0 {
			return fmt.Errorf("%v changed nothing", texts)
		}
		return nil
	})
}

// beside runs statements on a database as somebody who is not the service, without the foreign keys of SQLite.
func beside(name string, do func(db *sql.DB) error) error {
	driver, dsn := "pgx", name
	if strings.HasPrefix(name, "file:") {
		driver, dsn = "sqlite", name+"?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

// harm does something to a store, and says what.
type harm = func(r *rand.Rand, name string) (did string, err error)

// onRows runs a statement that is made for random rows of a random table, another where the database refuses it.
func onRows(count int, make func(table, key string, keys, columns []string) string) harm {
	return func(r *rand.Rand, name string) (did string, err error) {
		err = beside(name, func(db *sql.DB) (last error) {
			for range 200 {
				table := keyed[r.IntN(len(keyed))]
				keys, columns, err := randomRows(r, db, table[0], table[1], count)
				if err != nil {
					return err
				}
				if len(keys) < count {
					continue
				}
				did = make(table[0], table[1], keys, columns)
				result, err := db.Exec(did)
				if err == nil {
					var n int64
					if n, err = result.RowsAffected(); err == nil && n > 0 {
						return nil
					}
				}
				last = err
			}
			return fmt.Errorf("no row was harmed: %w", last)
		})
		return did, err
	}
}

func randomRows(r *rand.Rand, db *sql.DB, table, key string, count int) (keys, columns []string, err error) {
	rows, err := db.Query(`SELECT * FROM ` + table + ` ORDER BY ` + key)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	if columns, err = rows.Columns(); err != nil {
		return nil, nil, err
	}
	at := 0
	for i, c := range columns {
		if c == key {
			at = i
		}
	}
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		to := make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, nil, err
		}
		keys = append(keys, values[at].String)
	}
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys[:min(count, len(keys))], columns, rows.Err()
}

// anotherCharacter changes one character of a random column of a random row into another.
func anotherCharacter(from, to string) func(*rand.Rand, string) (string, error) {
	return func(r *rand.Rand, name string) (string, error) {
		column := r.IntN(1 << 16)
		return onRows(1, func(table, key string, keys, columns []string) string {
			column++
			c := `"` + columns[column%len(columns)] + `"`
			// The n-th of the characters that are there, found in the text by the database itself.
			old, other := from[r.IntN(len(from))], to[r.IntN(len(to))]
			return fmt.Sprintf(`UPDATE %[1]s SET %[2]s = SUBSTR(CAST(%[2]s AS TEXT), 1, %[6]s - 1) || '%[5]c' || SUBSTR(CAST(%[2]s AS TEXT), %[6]s + 1)
WHERE %[3]s = '%[4]s' AND %[6]s > 0 AND '%[7]c' <> '%[5]c'`, table, c, key, keys[0], other, position(name, c, old), old)
		})(r, name)
	}
}

// position is where a character is in a column.
func position(name, column string, character byte) string {
	function := "STRPOS"
	if strings.HasPrefix(name, "file:") {
		function = "INSTR"
	}
	return fmt.Sprintf(`%s(CAST(%s AS TEXT), '%c')`, function, column, character)
}

// fileCorruptions are what becomes of an SQLite file and its log.
func fileCorruptions(older string) []corruption {
	inFile := func(suffix string, do func(r *rand.Rand, content []byte) ([]byte, string)) harm {
		return func(r *rand.Rand, name string) (string, error) {
			path := strings.TrimPrefix(name, "file:") + suffix
			content, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			content, did := do(r, content)
			// In its place, as a disk would: a service may have it open.
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return "", err
			}
			_, err = f.WriteAt(content, 0)
			return did, errors.Join(err, f.Truncate(int64(len(content))), f.Close())
		}
	}
	put := func(suffixes ...string) func(*rand.Rand, string) (string, error) {
		return func(_ *rand.Rand, name string) (string, error) {
			for _, suffix := range suffixes {
				content, err := os.ReadFile(older + suffix)
				if err == nil {
					err = os.WriteFile(strings.TrimPrefix(name, "file:")+suffix, content, 0o644)
				}
				if err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("older %q put back", suffixes), nil
		}
	}
	// All of the database is in its file, where no log hides what becomes of it.
	checkpointed := func(do func(*rand.Rand, string) (string, error)) func(*rand.Rand, string) (string, error) {
		return func(r *rand.Rand, name string) (string, error) {
			err := beside(name, func(db *sql.DB) error {
				_, err := db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`)
				return err
			})
			if err != nil {
				return "", err
			}
			return do(r, name)
		}
	}
	return []corruption{
		{"a bit of the file", checkpointed(inFile("", flipBit))},
		{"a bit in the last pages", checkpointed(inFile("", func(r *rand.Rand, content []byte) ([]byte, string) {
			end, did := flipBit(r, content[len(content)-len(content)/4:])
			return append(content[:len(content)-len(content)/4], end...), did
		}))},
		{"a page of zeros", checkpointed(inFile("", zeroPage(4096)))},
		{"a page twice", checkpointed(inFile("", copyPage(4096)))},
		{"the file cut", checkpointed(inFile("", cut(4096)))},
		{"an older file", put("")},
		{"an older file with its log", put("", "-wal")},
		{"an older log", put("-wal")},
		{"a bit of the log", inFile("-wal", flipBit)},
		{"the log cut", inFile("-wal", cut(1))},
		{"a page of zeros in the log", inFile("-wal", zeroPage(4096))},
		{"the log gone", func(_ *rand.Rand, name string) (string, error) {
			return "removed", os.Remove(strings.TrimPrefix(name, "file:") + "-wal")
		}},
		{"a number of writes that is none", inFile("-acknowledged", func(*rand.Rand, []byte) ([]byte, string) {
			return []byte("many\n"), "many"
		})},
	}
}

// pageCorruptions are what becomes of the files of a server, which is stopped meanwhile.
func pageCorruptions(server *pgtest.Server) []corruption {
	stopped := func(do func(*rand.Rand, []byte) ([]byte, string)) func(*rand.Rand, string) (string, error) {
		return func(r *rand.Rand, name string) (string, error) {
			relation := keyed[r.IntN(len(keyed))][0]
			if r.IntN(4) == 0 {
				relation += "_pkey"
			}
			conn, err := pgx.Connect(context.Background(), name)
			if err != nil {
				return "", err
			}
			_, err = conn.Exec(context.Background(), "CHECKPOINT")
			if err = errors.Join(err, conn.Close(context.Background())); err != nil {
				return "", err
			}
			path, err := server.File(name, relation)
			if err != nil {
				return "", err
			}
			server.Stop()
			content, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			content, did := do(r, content)
			if err := os.WriteFile(path, content, 0o600); err != nil {
				return "", err
			}
			return relation + ": " + did, server.Start()
		}
	}
	return []corruption{
		{"a bit of a table", stopped(flipBit)},
		{"a page of zeros", stopped(zeroPage(8192))},
		{"a page twice", stopped(copyPage(8192))},
		{"a table cut", stopped(cut(8192))},
	}
}

func flipBit(r *rand.Rand, content []byte) ([]byte, string) {
	at, bit := r.IntN(len(content)), r.IntN(8)
	content[at] ^= 1 << bit
	return content, fmt.Sprintf("bit %d of byte %d of %d", bit, at, len(content))
}

func zeroPage(size int) func(*rand.Rand, []byte) ([]byte, string) {
	return func(r *rand.Rand, content []byte) ([]byte, string) {
		page := r.IntN(max(1, len(content)/size))
		clear(content[page*size : min(len(content), (page+1)*size)])
		return content, fmt.Sprintf("page %d of %d is zeros", page, len(content)/size)
	}
}

func copyPage(size int) func(*rand.Rand, []byte) ([]byte, string) {
	return func(r *rand.Rand, content []byte) ([]byte, string) {
		pages := len(content) / size
		from, to := r.IntN(pages), r.IntN(pages)
		copy(content[to*size:(to+1)*size], content[from*size:(from+1)*size])
		return content, fmt.Sprintf("page %d of %d is page %d", to, pages, from)
	}
}

func cut(unit int) func(*rand.Rand, []byte) ([]byte, string) {
	return func(r *rand.Rand, content []byte) ([]byte, string) {
		left := r.IntN(len(content)/unit) * unit
		return content[:left], fmt.Sprintf("%d of %d bytes are left", left, len(content))
	}
}
