package store

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
)

// guard notices that an SQLite file is not the one any more that acknowledged writes are in. SQLite itself goes on with
// a file that was removed, and starts anew with one that is empty or has lost its log.
//
// Every write counts up user_version in the file's header, within its transaction, and then the number in a small file
// beside it, before it is acknowledged. A database that has a lower number than that has lost writes.
type guard struct {
	path string
	// opened is the file as it was opened.
	opened fs.FileInfo

	// dsn is the name of the database for a look that shares nothing with the open connections.
	dsn string

	mu sync.Mutex // for the file of the number, and log
	// log is the write-ahead log as it was last seen; nil before the first look.
	log fs.FileInfo
}

// acknowledgedSuffix is what the name of the file with the number of acknowledged writes ends in.
const acknowledgedSuffix = "-acknowledged"

// before says, before SQLite would make a new file, whether there was one with acknowledged writes.
func (g *guard) before() error {
	n, err := g.acknowledged()
	if err != nil || n == 0 {
		return err
	}
	info, err := os.Stat(g.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return g.lost("is gone", n)
	case err != nil:
		return fmt.Errorf("look at the database: %w", err)
	case info.Size() == 0:
		return g.lost("is empty", n)
	}
	return nil
}

// lost is the error of a database that does not have what was acknowledged.
func (g *guard) lost(how string, n int64) error {
	return &damaged{fmt.Errorf("the database %s %s, and %d writes to it were acknowledged: put it back, with its -wal "+
		"file where it had one. "+
		"If an older state is meant to be used from now on, delete %s first", g.path, how, n, g.path+
		acknowledgedSuffix)}
}

// open compares an open database with the number of acknowledged writes.
func (g *guard) open(ctx context.Context, db *sql.DB) error {
	err := g.checkWrites(ctx, db)
	if err != nil {
		return err
	}
	if g.opened, err = os.Stat(g.path); err != nil {
		return fmt.Errorf("look at the database: %w", err)
	}
	return nil
}

// check says what is wrong with the file now: gone, another one, or shorter than its header says.
func (g *guard) check() error {
	info, err := os.Stat(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the database %s is gone: what is written would be lost", g.path)
	}
	if err != nil {
		return fmt.Errorf("look at the database: %w", err)
	}
	if !os.SameFile(info, g.opened) {
		return fmt.Errorf("the database %s is another file than the one that was opened: what is written would be lost",
			g.path)
	}
	if err := g.checkLength(); err != nil {
		return err
	}
	return g.checkLog()
}

// checkLength says whether the file has less than its header says, and the log does not have the rest. A checkpoint may
// end between two looks, so that what lacked in the first is in the file by then.
func (g *guard) checkLength() (err error) {
	const looks = 3
	for range looks {
		if err = g.lookAtLength(); err == nil {
			return nil
		}
	}
	return err
}

func (g *guard) lookAtLength() error {
	f, err := os.Open(g.path)
	if err != nil {
		return fmt.Errorf("look at the database: %w", err)
	}
	defer f.Close() // it was only read
	// https://www.sqlite.org/fileformat.html#the_database_header: the magic, the size of a page at 16 (1 is 65536), and
	// at 28 the pages that the file has, without those in the log.
	var header [100]byte
	_, read := io.ReadFull(f, header[:])
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at the database: %w", err)
	}
	if read != nil || !strings.HasPrefix(string(header[:]), "SQLite format 3\x00") {
		return fmt.Errorf("the database %s was cut or overwritten: it has %d bytes and no header", g.path, info.Size())
	}
	page := int64(binary.BigEndian.Uint16(header[16:]))
	if page == 1 {
		page = 1 << 16
	}
	pages := binary.BigEndian.Uint32(header[28:])
	has := info.Size() / page
	if has >= int64(pages) {
		return nil
	}
	logged, err := walPages(g.path)
	if err != nil {
		return err
	}
	for p := has + 1; p <= int64(pages); p++ {
		if !logged[uint32(p)] {
			return fmt.Errorf("the database %s was cut: it has %d bytes, its header says %d, and its log does not have "+
				"the rest", g.path, info.Size(), page*int64(pages))
		}
	}
	return nil
}

// checkLog looks whether the log is another file or shorter than it was. A checkpoint that somebody asked for shortens
// it too: then a new connection finds all that was acknowledged; where frames are missing, it finds an error or an
// older state.
func (g *guard) checkLog() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	info, err := os.Stat(g.path + "-wal")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at the database's log: %w", err)
	}
	before := g.log
	if before == nil && err != nil || err == nil && (before == nil || os.SameFile(info, before) &&
		info.Size() >= before.Size()) {
		if err == nil {
			g.log = info
		}
		return nil
	}
	n, err := g.acknowledged()
	if err != nil {
		return err
	}
	has, err := g.look()
	if err != nil {
		return fmt.Errorf("the log %s-wal was cut or removed while it was in use: %w", g.path, err)
	}
	if has < n {
		return g.lost(fmt.Sprintf("has %d writes, since its log was cut or removed", has), n)
	}
	if info, err = os.Stat(g.path + "-wal"); err == nil {
		g.log = info
	}
	return nil
}

// look is the number of writes that a new connection finds.
func (g *guard) look() (n int64, err error) {
	db, err := sql.Open("sqlite", g.dsn)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.QueryRow(`PRAGMA user_version`).Scan(&n)
	return n, err
}

// checkWrites compares the writes that the open database has with those that were acknowledged.
func (g *guard) checkWrites(ctx context.Context, db *sql.DB) error {
	noted, err := g.acknowledged() // before it is compared: there may be more by then, never fewer
	if err != nil {
		return err
	}
	var has int64
	if err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&has); err != nil {
		return fmt.Errorf("read the number of writes: %w", err)
	}
	if has < noted {
		return g.lost(fmt.Sprintf("has %d writes", has), noted)
	}
	return nil
}

// count counts a write within its transaction.
func (g *guard) count(ctx context.Context, tx *sql.Tx) (n int64, err error) {
	if err := g.check(); err != nil {
		return 0, err
	}
	if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the write: %w", err)
	}
	noted, err := g.acknowledged()
	if err != nil {
		return 0, err
	}
	if n < noted { // a commit that was none, or an older state
		return 0, g.lost(fmt.Sprintf("has %d writes", n), noted)
	}
	n++
	if _, err := tx.ExecContext(ctx, `PRAGMA user_version = `+strconv.FormatInt(n, 10)); err != nil {
		return 0, fmt.Errorf("count the write: %w", err)
	}
	return n, nil
}

// acknowledge makes it known outside of the database that it has so many writes. Only then may the last be
// acknowledged.
func (g *guard) acknowledge(n int64) error {
	if err := g.check(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if before, err := g.acknowledged(); err != nil || before >= n { // another process was faster
		return err
	}
	f, err := os.OpenFile(g.path+acknowledgedSuffix, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("note the number of writes: %w", err)
	}
	// One length for all numbers: the file never has a part of one.
	_, err = f.WriteAt(fmt.Appendf(nil, "%020d\n", n), 0)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("note the number of writes: %w", err)
	}
	return nil
}

// acknowledged is the number of writes that were acknowledged; 0 where nobody noted one.
func (g *guard) acknowledged() (int64, error) {
	text, err := os.ReadFile(g.path + acknowledgedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the number of writes: %w", err)
	}
	if len(text) == 0 { // made, and not written yet
		return 0, nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 0 {
		return 0, &damaged{fmt.Errorf("%s does not hold a number: delete it if the database is known to be whole",
			g.path+acknowledgedSuffix)}
	}
	return n, nil
}
