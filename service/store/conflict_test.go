package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/store/pgtest"
)

// gaveUp is what a server says that gave a transaction up in favour of another.
var gaveUp = &pgconn.PgError{Code: "40001", Message: "restart transaction"}

// conflicts is PostgreSQL, of which one call fails as a server's does that gives a transaction up.
type conflicts struct {
	driver.Connector
	// failing counts down at each call; the one at which it is 1 fails.
	failing int
}

func (c *conflicts) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conflictConn{conn.(*stdlib.Conn), c}, nil
}

func (c *conflicts) now() bool {
	c.failing--
	return c.failing == 0
}

type conflictConn struct {
	*stdlib.Conn
	all *conflicts
}

func (c *conflictConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if c.all.now() {
		return nil, gaveUp
	}
	tx, err := c.Conn.BeginTx(ctx, o)
	return &conflictTx{tx, c.all}, err
}

func (c *conflictConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.all.now() {
		return nil, gaveUp
	}
	return c.Conn.ExecContext(ctx, query, args)
}

func (c *conflictConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.all.now() {
		return nil, gaveUp
	}
	rows, err := c.Conn.QueryContext(ctx, query, args)
	if err == nil && c.all.now() {
		rows = &conflictRows{Rows: rows}
	}
	return rows, err
}

// conflictRows fail after the first.
type conflictRows struct {
	driver.Rows
	read bool
}

func (r *conflictRows) Next(to []driver.Value) error {
	if r.read {
		return gaveUp
	}
	r.read = true
	return r.Rows.Next(to)
}

type conflictTx struct {
	driver.Tx
	all *conflicts
}

func (t *conflictTx) Commit() error {
	if t.all.now() {
		_ = t.Tx.Rollback()
		return gaveUp
	}
	return t.Tx.Commit()
}

// Whichever statement of whatever the store does a server gives up, the store does it again, and once.
func TestEveryStatementMayBeGivenUp(t *testing.T) {
	t.Parallel()
	name := pgtest.Database(t)
	s, err := openPostgres(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	config, err := pgx.ParseConfig(name)
	if err != nil {
		t.Fatal(err)
	}
	server := &conflicts{Connector: stdlib.GetConnector(*config)}
	s.db = sql.OpenDB(server)
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, o := range operations() {
		t.Run(o.name, func(t *testing.T) {
			// The same operation again and again: each time a later call fails, until it makes fewer calls.
			for i := 1; ; i++ {
				server.failing = i
				got, err := o.do(t.Context(), s, i)
				if err != nil {
					t.Fatalf("call %d was given up: %v", i, err)
				}
				if diff := cmp.Diff(o.want(i), got, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("call %d was given up (-want +got):\n%s", i, diff)
				}
				if server.failing > 0 {
					if i <= o.calls {
						t.Fatalf("%d calls were made, at least %d were expected", i-1, o.calls)
					}
					return
				}
			}
		})
	}
}

// operation is something that a store does, as its i-th time.
type operation struct {
	name  string
	calls int
	do    func(ctx context.Context, s *Store, i int) (any, error)
	want  func(i int) any
}

func operations() []operation {
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	by := service.Author{KeyID: "key", Name: "ci"}
	is := func(v any) func(int) any { return func(int) any { return v } }
	numbered := func(i int) any { return int64(i) }
	observation := func(i int) service.StoredObservation {
		o := service.StoredObservation{IdempotencyKey: fmt.Sprint("once-", i), Digest: "d"}
		o.ID, o.GPU, o.Family, o.By = fmt.Sprintf("obs-%03d", i), "a100", "gpt2", by
		return o
	}
	return []operation{
		{"change the catalog", 14, func(ctx context.Context, s *Store, i int) (any, error) {
			return s.ChangeCatalog(ctx, func(*catalog.Contents) (*service.CatalogChange, error) {
				g := &catalog.GPU{ID: fmt.Sprint("card-", i), Name: "card", Aliases: []string{fmt.Sprint("alias-", i)}}
				return &service.CatalogChange{Kind: service.GPUEntryKind, ID: g.ID, Action: service.Created, GPU: g,
					By: by, At: at}, nil
			})
		}, numbered},
		{"read the catalog", 6, func(ctx context.Context, s *Store, _ int) (any, error) {
			c, err := s.Catalog(ctx)
			if err != nil {
				return nil, err
			}
			b, err := shipped()
			if err != nil {
				return nil, err
			}
			mark, err := s.CatalogMark(ctx)
			return c.Mark == mark && len(c.GPUs) > len(b.gpus) && len(c.Models) == len(b.models), err
		}, is(true)},
		{"read the history", 1, func(ctx context.Context, s *Store, _ int) (any, error) {
			h, err := s.CatalogHistory(ctx, service.HistoryFilter{Limit: 2, Before: 3})
			var ids []string
			for _, e := range h {
				ids = append(ids, e.ID)
			}
			return strings.Join(ids, " "), err
		}, is("card-2 card-1")},
		{"keys", 5, func(ctx context.Context, s *Store, i int) (any, error) {
			k := service.Key{ID: fmt.Sprint("key-", i), Name: "ci", Hash: "h", CreatedAt: at}
			if err := s.CreateKey(ctx, k); err != nil {
				return nil, err
			}
			read, err := s.Key(ctx, k.ID)
			if err != nil || read == nil {
				return nil, err
			}
			revoked, err := s.RevokeKey(ctx, k.ID, at)
			if err != nil {
				return nil, err
			}
			all, err := s.Keys(ctx)
			return []any{read.ID, revoked, len(all)}, err
		}, func(i int) any { return []any{fmt.Sprint("key-", i), true, i} }},
		{"observations", 4, func(ctx context.Context, s *Store, i int) (any, error) {
			stored, err := s.AddObservations(ctx, []service.StoredObservation{observation(2 * i), observation(2*i + 1)})
			if err != nil {
				return nil, err
			}
			list, _, err := s.Observations(ctx, service.ObservationFilter{Limit: 1000})
			return []any{stored[0].Known, stored[1].Known, len(list)}, err
		}, func(i int) any { return []any{false, false, 2 * i} }},
		{"calibrations", 10, func(ctx context.Context, s *Store, i int) (any, error) {
			digest := fmt.Sprint("digest-", i)
			c, known, err := s.AddCalibration(ctx, digest, func(number int64) *service.Calibration {
				return &service.Calibration{ID: fmt.Sprint("cal-", number), Number: number, Digest: digest}
			})
			if err != nil || known {
				return known, err
			}
			_, err = s.Activate(ctx, 1, func([]service.Activation) (*service.Activation, error) {
				return &service.Activation{Calibration: c.ID, By: by, At: at, Reason: "conflicts"}, nil
			})
			if err != nil {
				return nil, err
			}
			mark, err := s.CalibrationMark(ctx)
			if err != nil {
				return nil, err
			}
			active, err := s.ActiveCalibration(ctx, mark.Activations)
			if err != nil || active == nil {
				return nil, err
			}
			read, _, err := s.Calibration(ctx, active.ID)
			if err != nil || read == nil {
				return nil, err
			}
			var newest []int64
			if err := s.EachCalibration(ctx, 3, func(c *service.Calibration, _ int) (bool, error) {
				newest = append(newest, c.Number)
				return true, nil
			}); err != nil {
				return nil, err
			}
			list, err := s.Calibrations(ctx, service.CalibrationFilter{Limit: 1000})
			if err != nil {
				return nil, err
			}
			activations, err := s.Activations(ctx, service.CalibrationFilter{Limit: 1000})
			return []any{mark.Activations, read.ID, newest, len(list), len(activations)}, err
		}, func(i int) any {
			newest := []int64{int64(i), int64(i - 1), int64(i - 2)}[:min(i, 3)]
			return []any{int64(i), fmt.Sprint("cal-", i), newest, i, i}
		}},
	}
}
