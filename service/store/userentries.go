package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
)

// lastChanges are the users' entries as the history has them: of each the last change, unless that deleted it.
const lastChanges = `WHERE t.action <> 'delete' AND NOT EXISTS (SELECT 1 FROM catalog_history AS n
	WHERE n.kind = t.kind AND n.entry_id = t.entry_id AND n.change_number > t.change_number)
ORDER BY t.change_number`

// useHistory sees to it that users' entries are what users entered. The history has each of them whole, with a digest:
// an entry that is not the same in its own table is taken from there, and named in Faults. Where the history does not
// help, since its row was altered too or there is none, the entry stays as it is, named in Faults; the digest of users'
// entries in the catalog's revision is then another.
func (r reader) useHistory(ctx context.Context, c *catalog.Contents) error {
	gpus, models := map[string]*catalog.GPU{}, map[string]*catalog.Model{}
	err := each(ctx, r.tx, sealedHistory.rows(lastChanges), nil, func(rows *sql.Rows) error {
		h, err := scanHistory(rows)
		if err != nil || h.altered {
			return err
		}
		switch h.Kind {
		case service.GPUEntryKind:
			g := &catalog.GPU{}
			if json.Unmarshal(h.Entry, g) != nil { // altered, without a digest to say so
				return nil
			}
			g.Origin, g.Revision, g.AliasNotes = catalog.User, h.Change, notesOf(g.Aliases, g.AliasNotes)
			gpus[h.ID] = g
		case service.ModelEntryKind:
			m := &catalog.Model{}
			if json.Unmarshal(h.Entry, m) != nil {
				return nil
			}
			m.Origin, m.Revision, m.AliasNotes = catalog.User, h.Change, notesOf(m.Aliases, m.AliasNotes)
			m.Aliases = append([]string{}, m.Aliases...) // a list, which may be empty: never null
			models[h.ID] = m
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read what users entered: %w", err)
	}
	c.GPUs, err = asEntered(c, "GPU", c.GPUs, gpus, func(g *catalog.GPU) (string, catalog.Origin) {
		return g.ID, g.Origin
	})
	if err != nil {
		return err
	}
	c.Models, err = asEntered(c, "model", c.Models, models, func(m *catalog.Model) (string, catalog.Origin) {
		return m.ID, m.Origin
	})
	return err
}

// notesOf are the notes of aliases as their table keeps them: no empty ones.
func notesOf(aliases []string, notes map[string]string) map[string]string {
	var kept map[string]string
	for _, a := range aliases {
		alias{name: a, note: notes[a]}.addTo(new([]string), &kept)
	}
	return kept
}

// asEntered is a list with the users' entries as they were entered.
func asEntered[E any](c *catalog.Contents, kind string, list []E, entered map[string]*E,
	of func(*E) (string, catalog.Origin)) ([]E, error) {
	fault := func(format, id string) { c.Faults = append(c.Faults, fmt.Sprintf(format, kind, id)) }
	for i := range list {
		id, origin := of(&list[i])
		last := entered[id]
		delete(entered, id)
		switch {
		case last == nil && origin == catalog.User:
			fault("the user's %s %q of the database is not in its history, or is altered there: nothing says whether "+
				"it is what was entered", id)
		case last == nil:
		default:
			same, err := equal(&list[i], last)
			if err != nil {
				return nil, err
			}
			if !same {
				fault("the user's %s %q of the database was altered: it is taken from the history", id)
			}
			list[i] = *last
		}
	}
	for _, id := range slices.Sorted(maps.Keys(entered)) {
		fault("the user's %s %q is missing in the database: it is taken from the history", id)
		list = append(list, *entered[id])
	}
	return list, nil
}
