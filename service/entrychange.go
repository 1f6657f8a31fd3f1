package service

import (
	"context"
	"errors"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service/catalog"
)

// maxUserEntries bounds each list of the catalog: a job may ask for all cards at once.
const maxUserEntries = 2000

// put creates or replaces an entry, and returns its revision.
func (s *Service) put(ctx context.Context, c CatalogChange, known Precondition,
	aliases []string) (revision int64, created bool, err error) {
	if !known.given() {
		return 0, false, preconditionRequired(c.Kind, c.ID)
	}
	revision, err = s.change(ctx, func(now *catalog.Contents) (*CatalogChange, error) {
		all := entriesOf(now, c.Kind)
		current := all.find(c.ID)
		if err := known.check(c.Kind, c.ID, current.version); err != nil {
			return nil, err
		}
		if err := all.free(c.Kind, c.ID, aliases); err != nil {
			return nil, err
		}
		if current.version == "" { // one that is there keeps the name that it has
			if owner := named(now, c.Kind, c.ID); owner != "" {
				return nil, failed(CodeConflict, "%q means the %s %q, which is in the catalog; PUT an entry of that id to "+
					"use other figures for it, or choose another id", c.ID, c.Kind, owner)
			}
		}
		if current.origin != catalog.User && all.users() >= maxUserEntries {
			return nil, failed(CodeConflict, "users have entered %d %ss, which is the most that the catalog takes",
				maxUserEntries, c.Kind)
		}
		if err := roomFor(now, &c); err != nil {
			return nil, err
		}
		if created = current.version == ""; created {
			c.Action = Created
		} else {
			c.Action = Replaced
		}
		c.At = s.now().UTC()
		return &c, nil
	})
	return revision, created, err
}

// DeleteEntry removes what a user entered. A built-in entry that it stood in place of is back
// then; built-in entries themselves cannot be removed.
func (s *Service) DeleteEntry(ctx context.Context, by Author, kind EntryKind, id string, known Precondition) error {
	_, err := s.change(ctx, func(now *catalog.Contents) (*CatalogChange, error) {
		current := entriesOf(now, kind).find(id)
		switch {
		case current.version == "":
			return nil, failed(CodeNotFound, "there is no %s %q", kind, id)
		case current.origin == catalog.Builtin:
			return nil, failed(CodeConflict, "the %s %q is built in and cannot be deleted; PUT an entry of its id to "+
				"use other figures", kind, id)
		case !known.given():
			return nil, preconditionRequired(kind, id)
		}
		if err := known.check(kind, id, current.version); err != nil {
			return nil, err
		}
		return &CatalogChange{Kind: kind, ID: id, Action: Deleted, By: by, At: s.now().UTC()}, nil
	})
	return err
}

// change makes a change, and answers with it from now on. What the store has
// acknowledged stands, whatever becomes of the catalog in memory.
func (s *Service) change(ctx context.Context, decide func(*catalog.Contents) (*CatalogChange, error)) (int64, error) {
	if s.store == nil {
		return 0, noDatabase()
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	revision, err := s.store.ChangeCatalog(ctx, decide)
	if err != nil {
		return 0, storeError(err, "the database did not confirm the change: it may or may not have been stored, so "+
			"read the entry again before another try")
	}
	_ = s.Refresh(ctx) // Follow tries again, and says so
	return revision, nil
}

// storeError keeps refusals as they are, and makes everything else the database's fault. The message is of a write that
// may have been made, or of a read.
func storeError(err error, message string) error {
	if _, ok := errors.AsType[*NotStored](err); ok {
		message = "the database did not make the change, and nothing was changed: send it again"
	}
	return databaseError(err, message)
}

// databaseError is storeError with the message as it is given.
func databaseError(err error, message string) error {
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*invalid.Error](err); ok {
		return err
	}
	if altered, ok := errors.AsType[*AlteredError](err); ok {
		return &Error{Code: CodeUnavailable, Message: altered.Error()}
	}
	return &Error{Code: CodeUnavailable, Message: message, Err: err}
}

// NotStored is a store's error of a write that ended before it was asked to commit: nothing of it is kept. Any other
// error of a write leaves open whether it was.
type NotStored struct{ Err error }

func (e *NotStored) Error() string { return e.Err.Error() }

func (e *NotStored) Unwrap() error { return e.Err }

func noDatabase() error {
	return failed(CodeUnavailable, "this service runs without a database and keeps nothing")
}

// entryList is one list of the catalog, as far as changes look at it.
type entryList struct {
	entries []entryState
	key     func(string) string
}

type entryState struct {
	id, version string
	origin      catalog.Origin
	aliases     []string
}

func entriesOf(c *catalog.Contents, kind EntryKind) entryList {
	if kind == GPUEntryKind {
		l := entryList{make([]entryState, len(c.GPUs)), catalog.GPUKey}
		for i := range c.GPUs {
			g := &c.GPUs[i]
			l.entries[i] = entryState{g.ID, g.Version(), g.Origin, g.Aliases}
		}
		return l
	}
	l := entryList{make([]entryState, len(c.Models)), catalog.ModelKey}
	for i := range c.Models {
		m := &c.Models[i]
		l.entries[i] = entryState{m.ID, m.Version(), m.Origin, m.Aliases}
	}
	return l
}

// named is the id of the other entry that a name leads to, "" where it leads to none.
func named(c *catalog.Contents, kind EntryKind, name string) string {
	if kind == GPUEntryKind {
		return c.GPUNamed(name, name)
	}
	return c.ModelNamed(name, name)
}

// find returns the entry with exactly this id, or the zero state.
func (l entryList) find(id string) entryState {
	for _, e := range l.entries {
		if e.id == id {
			return e
		}
	}
	return entryState{}
}

func (l entryList) users() (n int) {
	for _, e := range l.entries {
		if e.origin == catalog.User {
			n++
		}
	}
	return n
}

// free refuses names that would not mean the entry: an id goes before any alias, and of
// two users' aliases nobody could say which was meant. A user's alias goes before a built-in one.
func (l entryList) free(kind EntryKind, id string, aliases []string) error {
	owners := map[string]string{}
	for _, e := range l.entries {
		if e.id == id {
			continue
		}
		if l.key(e.id) == l.key(id) {
			return failed(CodeConflict, "%q is another spelling of the %s %q, which is in the catalog", id, kind, e.id)
		}
		owners[l.key(e.id)] = e.id
	}
	for _, e := range l.entries {
		if e.origin == catalog.User && e.id != id {
			for _, a := range e.aliases {
				owners[l.key(a)] = e.id
			}
		}
	}
	var wrong invalid.List
	for i, a := range aliases {
		if owner, taken := owners[l.key(a)]; taken {
			wrong.Add(at("/aliases", i), "conflict", "%q means the %s %q already", a, kind, owner)
		}
	}
	return wrong.Err()
}
