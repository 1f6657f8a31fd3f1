package store

import (
	"context"
	"database/sql/driver"
	"errors"
)

// faulty is a database of which one call fails: a statement, a row, the begin or the commit of a transaction.
type faulty struct {
	driver.Connector
	how fault
	// failing counts down at each call; the one at which it is 1 fails.
	failing int
	err     error
}

// fault is what becomes of the call that fails.
type fault int

const (
	refused fault = iota // it is not made
	unheard              // it is made, and says that it failed
	broken               // it is not made, and neither is any other on its connection
	lied                 // only a commit: it is not made, and says that it was; everything else goes well
)

func (f fault) String() string { return []string{"refused", "unheard", "broken", "lied"}[f] }

func (f *faulty) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := f.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyConn{anyConn: conn.(anyConn), all: f}, nil
}

// now says whether this call fails.
func (f *faulty) now() bool {
	f.failing--
	return f.failing == 0
}

// anyConn is what the drivers of both databases can do.
type anyConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
}

type faultyConn struct {
	anyConn
	all  *faulty
	dead bool
}

// CheckNamedValue leaves values to a driver that does so, as it would be without this one in front.
func (c *faultyConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.anyConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

// IsValid says that a broken connection is not to be used again.
func (c *faultyConn) IsValid() bool { return !c.dead }

// fail says what the next call has to say instead, and whether it is made all the same.
func (c *faultyConn) fail() (err error, made bool) {
	if c.dead {
		return c.all.err, false
	}
	if c.all.how == lied || !c.all.now() {
		return nil, true
	}
	c.dead = c.all.how == broken
	return c.all.err, c.all.how == unheard
}

func (c *faultyConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	err, made := c.fail()
	if !made {
		return nil, err
	}
	tx, beginErr := c.anyConn.BeginTx(ctx, o)
	if err != nil && beginErr == nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return &faultyTx{tx, c}, beginErr
}

func (c *faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	err, made := c.fail()
	if !made {
		return nil, err
	}
	result, execErr := c.anyConn.ExecContext(ctx, query, args)
	return result, errors.Join(err, execErr)
}

func (c *faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	err, made := c.fail()
	if !made {
		return nil, err
	}
	rows, queryErr := c.anyConn.QueryContext(ctx, query, args)
	if queryErr != nil {
		return nil, queryErr
	}
	if err != nil {
		return nil, errors.Join(err, rows.Close())
	}
	if err, _ := c.fail(); err != nil {
		return &faultyRows{Rows: rows, err: err}, nil
	}
	return rows, nil
}

// faultyRows fail after the first.
type faultyRows struct {
	driver.Rows
	err  error
	read bool
}

func (r *faultyRows) Next(to []driver.Value) error {
	if r.read {
		return r.err
	}
	r.read = true
	return r.Rows.Next(to)
}

type faultyTx struct {
	driver.Tx
	conn *faultyConn
}

func (t *faultyTx) Commit() error {
	if t.conn.all.how == lied && t.conn.all.now() {
		return t.Tx.Rollback()
	}
	err, made := t.conn.fail()
	if !made {
		return errors.Join(err, t.Tx.Rollback())
	}
	return errors.Join(err, t.Tx.Commit())
}

// plainConnector is that of a driver that has none.
type plainConnector struct {
	of   driver.Driver
	name string
}

func (c plainConnector) Connect(context.Context) (driver.Conn, error) { return c.of.Open(c.name) }

func (c plainConnector) Driver() driver.Driver { return c.of }
