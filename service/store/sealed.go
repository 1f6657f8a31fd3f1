package store

import (
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// sealed is a table whose rows have digests. Its names are put into SQL.
type sealed struct {
	name    string
	key     string
	columns string // the others, in the order in which they are digested
}

// The tables with digests. Users' entries are in the history, whole, and are held against it; the built-in ones are
// those of the program.
var (
	sealedHistory = sealed{"catalog_history", "change_number",
		"kind, entry_id, action, key_id, key_name, changed_at, document"}
	sealedKeys         = sealed{"api_keys", "id", "name, hash, scopes, created_at, expires_at, revoked_at"}
	sealedObservations = sealed{"observations", "id",
		`key_id, idempotency_key, request_digest, gpu, "family", document`}
	sealedCalibrations = sealed{"calibrations", "number", "id, digest, summary, document"}
	sealedActivations  = sealed{"calibration_activations", "number", "calibration_id, key_id, key_name, activated_at"}
	sealedDecisions    = sealed{"calibration_decisions", "activation", "refused, reason"}

	sealedTables = []sealed{sealedHistory, sealedKeys, sealedObservations, sealedCalibrations, sealedActivations,
		sealedDecisions}
)

// rows is a query of a table's rows with their digests, for scanSealed. after is what follows the tables, where the
// table is called t.
func (t sealed) rows(after string) string {
	var columns strings.Builder
	for column := range strings.SplitSeq(t.columns, ", ") {
		columns.WriteString(", t." + column)
	}
	return `
SELECT t.` + t.key + columns.String() + `, COALESCE(d.digest, '')
FROM ` + t.name + ` AS t LEFT JOIN row_digests AS d ON d.table_name = '` + t.name + `' AND d.row_key = CAST(t.` + t.key + ` AS TEXT)
` + after
}

// seal says whether a row is as the service wrote it.
type seal int

const (
	whole seal = iota
	altered
	// unsealed is a row that has no digest: an older program wrote it, or somebody behind the service.
	unsealed
)

// sealedRow is a row of a sealed table. Its texts are good until the next one is read.
type sealedRow struct {
	key    string
	values []sql.RawBytes // nil is NULL
	digest string         // of what is there now
	stored string         // of what was written; empty where there is none
	seal   seal
}

func (t sealed) scan(rows *sql.Rows) (r sealedRow, err error) {
	names, err := rows.Columns()
	if err != nil {
		return r, err
	}
	raw := make([]sql.RawBytes, len(names))
	to := make([]any, len(names))
	for i := range raw {
		to[i] = &raw[i]
	}
	if err := rows.Scan(to...); err != nil {
		return r, err
	}
	last := len(raw) - 1
	r.key, r.values = string(raw[0]), raw[1:last]
	r.digest = t.digest(r.key, r.values)
	switch r.stored = string(raw[last]); r.stored {
	case r.digest:
	case "":
		r.seal = unsealed
	default:
		r.seal = altered
	}
	return r, nil
}

// digest is the SHA-256 of a row in its place: the same values elsewhere have another.
func (t sealed) digest(key string, values []sql.RawBytes) string {
	h := sha256.New()
	add := func(text []byte, null bool) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		if null {
			length[0] = 0xff
		}
		h.Write(length[:])
		h.Write(text)
	}
	add([]byte(t.name), false)
	add([]byte(key), false)
	for _, v := range values {
		add(v, v == nil)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// digestOfValues is the digest of a row of these columns, as it is written.
func (t sealed) digestOfValues(key any, values []any) (string, error) {
	raw := make([]sql.RawBytes, len(values))
	for i, v := range values {
		text, null, err := asText(v)
		if err != nil {
			return "", err
		}
		if !null {
			raw[i] = append(sql.RawBytes{}, text...)
		}
	}
	text, _, err := asText(key)
	if err != nil {
		return "", err
	}
	return t.digest(text, raw), nil
}

func asText(v any) (text string, null bool, err error) {
	switch v := v.(type) {
	case string:
		return v, false, nil
	case int64:
		return strconv.FormatInt(v, 10), false, nil
	case sql.NullString:
		return v.String, !v.Valid, nil
	}
	return "", false, fmt.Errorf("a column of the type %T has no digest", v)
}

// sum adds digests up, modulo 2^256, in any order; what was added can be taken out again.
type sum struct{ n big.Int }

var sumModulus = new(big.Int).Lsh(big.NewInt(1), 256)

// parseSum reads what String wrote; the empty text is the sum of nothing.
func parseSum(text string) (s sum, err error) {
	if text == "" {
		return s, nil
	}
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != sha256.Size {
		return s, fmt.Errorf("%.80q is not a sum of digests", text)
	}
	s.n.SetBytes(raw)
	return s, nil
}

func (s *sum) add(digest string) error {
	d, err := parseSum(digest)
	if err == nil {
		s.n.Mod(s.n.Add(&s.n, &d.n), sumModulus)
	}
	return err
}

func (s *sum) remove(digest string) error {
	d, err := parseSum(digest)
	if err == nil {
		s.n.Mod(s.n.Sub(&s.n, &d.n), sumModulus)
	}
	return err
}

func (s *sum) String() string { return fmt.Sprintf("%064x", &s.n) }
