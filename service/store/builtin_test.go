package store_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/service"
)

// Whatever becomes of the built-in rows, equal revisions mean equal entries, and the harm is named.
func TestAlteredBuiltinEntriesAreNotUsed(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		whole, err := s.Catalog(t.Context())
		if err != nil || len(whole.Faults) > 0 {
			t.Fatalf("%v, %v", whole.Faults, err)
		}
		db := direct(t, name)
		exec1(t, db, `UPDATE gpus SET document = replace(document, '12878610432', '22878610432') WHERE id = 'rtx-4070' AND origin = 'builtin'`)
		exec1(t, db, `UPDATE gpus SET position = 0 WHERE id = 'rtx-4090' AND origin = 'builtin'`)
		exec1(t, db, `UPDATE gpu_aliases SET gpu_id = 't4' WHERE gpu_id = 'rtx-4080' AND origin = 'builtin'`)
		exec1(t, db, `DELETE FROM models WHERE id = 'openai-community/gpt2' AND origin = 'builtin'`)
		exec1(t, db, `INSERT INTO gpus (id, origin, document, created_at, updated_at) VALUES ('slipped-in', 'builtin', '{}', 'x', 'x')`)
		now, err := s.Catalog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		faults := strings.Join(now.Faults, "; ")
		for _, id := range []string{"rtx-4070", "rtx-4080", "t4", "slipped-in"} {
			if !strings.Contains(faults, `"`+id+`"`) {
				t.Errorf("%s is not named: %s", id, faults)
			}
		}
		now.Faults = nil
		if diff := cmp.Diff(whole, now); diff != "" {
			t.Errorf("revision %s has other entries (-whole +altered):\n%s", now.Revision, diff)
		}
		// A running service finds out by itself, though the catalog's mark is the same.
		told := 0
		svc := service.New(service.EmbeddedCatalog(), service.WithStore(s), service.WithFaults(func(f []string) {
			told = len(f)
		}))
		if err := svc.Refresh(t.Context()); err != nil || told < 4 || svc.Database().Faults != told {
			t.Errorf("%d faults were told, %v", told, err)
		}
		// Another program's catalog cannot be compared, so it is named by what is in it.
		exec1(t, db, `UPDATE catalog_state SET builtin = 'c-99'`)
		first, err := s.Catalog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		exec1(t, db, `UPDATE gpus SET document = replace(document, '22878610432', '32878610432') WHERE id = 'rtx-4070' AND origin = 'builtin'`)
		second, err := s.Catalog(t.Context())
		if err != nil || first.Revision == second.Revision || !strings.HasPrefix(first.Revision, "c-99+") {
			t.Errorf("revisions %s and %s, %v", first.Revision, second.Revision, err)
		}
	})
}
