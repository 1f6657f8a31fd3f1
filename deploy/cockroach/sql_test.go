// Package cockroach holds tests of the service's SQL against CockroachDB's own parser. It is
// a module of its own, so that the parser stays out of the program's dependencies.
package cockroach

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/parser"
)

var note = flag.Bool("note", false, "write checked.sum, which says what was found to be good")

const (
	// checked is read by the tests of service/store, which are run far more often than these.
	checked    = "checked.sum"
	statements = "../../service/store/testdata/statements.sql"
	migrations = "../../migrations/postgres"
)

// allowed is everything that the statements use, and what CockroachDB's documentation says of it where it is not what
// PostgreSQL does. Anything else fails the test: look it up before it goes in here.
var allowed = map[string]string{
	"SELECT": "", "INSERT": "", "UPDATE": "", "DELETE": "", "BEGIN": "", "COMMIT": "", "ROLLBACK": "",
	"CREATE TABLE": "in a transaction it is committed at once (autocommit_before_ddl), so a migration can be run again",
	"CREATE INDEX": "as CREATE TABLE",
	"DROP TABLE":   "as CREATE TABLE; only on the way down",

	"isolation REPEATABLE READ": "runs as SERIALIZABLE, unless the cluster allows the weaker one",
	"ON CONFLICT DO NOTHING":    "", "ON CONFLICT DO UPDATE": "",
	"IF NOT EXISTS": "",

	"type STRING": "PostgreSQL's TEXT", "type INT8": "also for INTEGER", "type BOOL": "", "type TIMESTAMP": "",
	"type JSONB":  "",
	"PRIMARY KEY": "", "UNIQUE INDEX": "", "CHECK": "", "FOREIGN KEY": "", "ON DELETE CASCADE": "", "DEFAULT": "",
	"GENERATED AS IDENTITY": "goose's; a sequence, whose values may have gaps",

	"function now": "", "function max": "", "function count": "", "function current_schema": "",
}

// Every statement is one that CockroachDB reads, and uses nothing but what is allowed.
func TestStatements(t *testing.T) {
	used := map[string]bool{}
	var sums bytes.Buffer
	for _, file := range files(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.Parse(string(text))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if len(parsed) == 0 && !isEmptyStep(string(text)) {
			t.Errorf("%s has no statements", file)
		}
		t.Logf("%s: %d statements", filepath.Base(file), len(parsed))
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(text), file)
		for _, s := range parsed {
			for _, feature := range features(s.AST) {
				used[feature] = true
				if _, ok := allowed[feature]; !ok {
					t.Errorf("%s uses %s:\n%.300s", file, feature, s.SQL)
				}
			}
		}
	}
	for _, feature := range slices.Sorted(maps.Keys(allowed)) {
		if !used[feature] {
			t.Errorf("%s is allowed and not used", feature)
		}
	}
	if t.Failed() || !*note {
		return
	}
	if err := os.WriteFile(checked, sums.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// isEmptyStep says that a migration is only a number that databases have.
func isEmptyStep(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			return false
		}
	}
	return strings.HasPrefix(text, "-- Empty: ")
}

func files(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(migrations, "*.sql"))
	if err != nil || len(list) == 0 {
		t.Fatalf("no migrations in %s: %v", migrations, err)
	}
	return append(list, statements)
}

// What features finds in statements that must not come in: that the parser reads them is not enough.
func TestFeatures(t *testing.T) {
	for statement, want := range map[string]string{
		`SELECT pg_advisory_lock(1)`:                                          "function pg_advisory_lock",
		`SELECT id FROM gpus WHERE id = $1 FOR UPDATE SKIP LOCKED`:            "FOR UPDATE SKIP LOCKED",
		`SELECT a FROM (SELECT random() AS a)`:                                "function random",
		`UPDATE gpus SET id = upper(id)`:                                      "function upper",
		`INSERT INTO gpus (id) VALUES (gen_random_uuid())`:                    "function gen_random_uuid",
		`CREATE TABLE t (id SERIAL PRIMARY KEY)`:                              "SERIAL",
		`CREATE TABLE t (a UUID DEFAULT gen_random_uuid())`:                   "function gen_random_uuid",
		`CREATE TABLE t (a TEXT[])`:                                           "type STRING[]",
		`CREATE TABLE t (a INT8, b INT8 AS (a + 1) STORED)`:                   "computed column",
		`CREATE INDEX ON gpus USING GIN (document)`:                           "inverted or vector index",
		`CREATE INDEX ON gpus (id) WHERE origin = 'user'`:                     "partial index",
		`ALTER TABLE gpus ADD COLUMN a TEXT`:                                  "ALTER TABLE",
		`BEGIN ISOLATION LEVEL SERIALIZABLE`:                                  "isolation SERIALIZABLE",
		`SET LOCAL idle_in_transaction_session_timeout = 0`:                   "SET",
		`WITH x AS (SELECT 1) SELECT * FROM x`:                                "WITH",
		`DELETE FROM gpus WHERE id IN (SELECT id FROM models FOR UPDATE)`:     "FOR UPDATE",
		`INSERT INTO gpus (id) VALUES ('a') RETURNING id`:                     "RETURNING",
		`CREATE TABLE t (a INT8 REFERENCES gpus (id) ON UPDATE CASCADE)`:      "ON UPDATE CASCADE",
		`CREATE TABLE t (a INT8, FOREIGN KEY (a) REFERENCES gpus MATCH FULL)`: "MATCH FULL",
	} {
		s, err := parser.ParseOne(statement)
		if err != nil {
			t.Errorf("%s: %v", statement, err)
			continue
		}
		if got := features(s.AST); !slices.Contains(got, want) {
			t.Errorf("%s: %q, want %q among them", statement, got, want)
		}
		if _, ok := allowed[want]; ok {
			t.Errorf("%s is allowed", want)
		}
	}
	// What the parser itself refuses.
	for _, statement := range []string{`LISTEN changes`, `NOTIFY changes`,
		`CREATE TABLE t (a INT8, EXCLUDE USING gist (a WITH =))`,
		`CREATE TABLE t (a INT8 UNIQUE DEFERRABLE INITIALLY DEFERRED)`} {
		if s, err := parser.ParseOne(statement); err == nil {
			got := features(s.AST)
			if !slices.ContainsFunc(got, func(f string) bool { _, ok := allowed[f]; return !ok }) {
				t.Errorf("%s: %v, all of it allowed", statement, got)
			}
		}
	}
}
