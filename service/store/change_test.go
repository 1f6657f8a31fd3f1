package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/store"
)

var ci = service.Author{KeyID: "abcdefghij", Name: "ci"}

// card is a user's entry with something in every kind of column.
func card(id string, memory int64) *catalog.GPU {
	return &catalog.GPU{ID: id, Name: "Card " + id, Vendor: "NVIDIA", MemoryBytes: memory, UsableBytes: memory,
		HalfFLOPS:  1.5e14,
		Aliases:    []string{id + " card", "It's " + id},
		AliasNotes: map[string]string{id + " card": "ours; \"quoted\" \\ and ü"},
		Notes:      "a $1 note with 'quotes'", Origin: catalog.User}
}

func put(g *catalog.GPU, action service.Action) func(*catalog.Contents) (*service.CatalogChange, error) {
	return func(*catalog.Contents) (*service.CatalogChange, error) {
		return &service.CatalogChange{Kind: service.GPUEntryKind, ID: g.ID, Action: action, GPU: g, By: ci,
			At: time.Date(2026, 11, 22, 10, 0, 0, 123456000, time.UTC)}, nil
	}
}

func mustChange(t *testing.T, s *store.Store, decide func(*catalog.Contents) (*service.CatalogChange, error)) int64 {
	t.Helper()
	n, err := s.ChangeCatalog(t.Context(), decide)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// What was stored is what is read, also after the database was opened anew.
func TestChangesAreRead(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		lab, override := card("lab-card", 1<<40), card("rtx-4070", 3)
		own := &catalog.Model{Origin: catalog.User, Notes: "own"}
		own.ID, own.Family, own.Layers, own.Aliases = "lab/own", "gpt2", 3, []string{"own"}
		for i, decide := range []func(*catalog.Contents) (*service.CatalogChange, error){
			put(lab, service.Created), put(override, service.Replaced),
			func(*catalog.Contents) (*service.CatalogChange, error) {
				return &service.CatalogChange{Kind: service.ModelEntryKind, ID: own.ID, Action: service.Created,
					Model: own, By: ci, At: time.Now()}, nil
			},
		} {
			if n := mustChange(t, s, decide); n != int64(i+1) {
				t.Errorf("change %d has the number %d", i+1, n)
			}
		}
		lab.Revision, override.Revision, own.Revision = 1, 2, 3
		c := load(t, open(t, name))
		for id, want := range map[string]*catalog.GPU{"lab-card": lab, "It's lab-card": lab, "rtx-4070": override} {
			got, err := c.GPU(id)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-stored +read):\n%s", id, diff)
			}
		}
		got, err := c.Model("own")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(own, got); diff != "" {
			t.Errorf("(-stored +read):\n%s", diff)
		}
		// An entry in a built-in one's place stands in its place of the list too.
		gpus, err := c.GPUs()
		if err != nil {
			t.Fatal(err)
		}
		builtin, err := service.EmbeddedCatalog().GPUs()
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(builtin, func(g catalog.GPU) bool { return g.ID == "rtx-4070" })
		if gpus[at].ID != "rtx-4070" || gpus[len(gpus)-1].ID != "lab-card" || len(gpus) != len(builtin)+1 {
			t.Errorf("%d cards: %s at %d, %s at the end", len(gpus), gpus[at].ID, at, gpus[len(gpus)-1].ID)
		}

		mustChange(t, s, func(*catalog.Contents) (*service.CatalogChange, error) {
			return &service.CatalogChange{Kind: service.GPUEntryKind, ID: "rtx-4070", Action: service.Deleted, By: ci,
				At: time.Now()}, nil
		})
		if g, err := load(t, s).GPU("rtx-4070"); err != nil || g.Origin != catalog.Builtin {
			t.Errorf("after the delete: %+v, %v", g, err)
		}
	})
}

func document(t *testing.T, m *catalog.Model) string {
	t.Helper()
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A model as a user enters it, in every form, is afterwards what was entered: no check takes it for an altered one.
func TestEnteredModelsAreWhole(t *testing.T) {
	recorded, err := os.ReadFile("../../estimator/testdata/recordings/memory-fp32.json")
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{
		"dimensions": `{"family":"gpt2","kind":"decoder","layers":2,"hidden":64,"heads":2,"vocab":100,
			"max_positions":64,"mlp":"gelu","norm":"layernorm","position":"learned"}`,
		"hf_config": `{"hf_config":{"model_type":"gpt2","n_layer":2,"n_embd":64,"n_head":2,"vocab_size":100,
			"_name_or_path":"<a> & b","layer_norm_epsilon":1e-05}}`,
		"nanogpt":  `{"nanogpt":{"n_layer":2,"n_head":2,"n_embd":64}}`,
		"named":    `{"aliases":["a2","a1"],"alias_notes":{"a1":"<b>"},"nanogpt":{"n_layer":2,"n_head":2,"n_embd":64}}`,
		"recorded": `{"recorded":` + string(recorded) + `}`,
	}
	onEach(t, func(t *testing.T, name string) {
		db := migrated(t, name)
		s := service.New(service.EmbeddedCatalog(), service.WithStore(db))
		for form, entry := range forms {
			var e service.ModelEntry
			if err := json.Unmarshal([]byte(entry), &e); err != nil {
				t.Fatal(err)
			}
			put, _, err := s.PutModel(t.Context(), ci, "lab/"+form, e,
				service.Precondition{Absent: true})
			if err != nil {
				t.Fatalf("%s: %v", form, err)
			}
			got, err := load(t, db).Model("lab/" + form)
			if err != nil {
				t.Fatalf("%s: %v", form, err)
			}
			if diff := cmp.Diff(document(t, put), document(t, got)); diff != "" {
				t.Errorf("%s (-answered +read):\n%s", form, diff)
			}
		}
		contents, err := db.Catalog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if contents.Faults != nil {
			t.Errorf("the catalog has faults: %q", contents.Faults)
		}
		report, err := db.Verify(t.Context())
		if err != nil || report.Count != 0 {
			t.Errorf("verify: %v, %+v", err, report)
		}
	})
}

// An error of decide undoes everything, its number included.
func TestRefusedChangesLeaveNothing(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		no := errors.New("no")
		if _, err := s.ChangeCatalog(t.Context(), func(*catalog.Contents) (*service.CatalogChange, error) {
			return nil, no
		}); !errors.Is(err, no) {
			t.Errorf("error %v", err)
		}
		// A document that the schema refuses, after parts of the change were written.
		if _, err := s.ChangeCatalog(t.Context(), func(*catalog.Contents) (*service.CatalogChange, error) {
			c, _ := put(card("lab-card", 1), "steal")(nil)
			return c, nil
		}); err == nil {
			t.Error("an action that the schema does not know was stored")
		}
		gpus, err := service.EmbeddedCatalog().GPUs()
		if err != nil {
			t.Fatal(err)
		}
		contents, err := s.Catalog(t.Context())
		if err != nil || contents.Mark != migrations.CatalogRevision ||
			contents.Revision != migrations.CatalogRevision || len(contents.GPUs) != len(gpus) {
			t.Errorf("%s, %s, %d cards, %v", contents.Mark, contents.Revision, len(contents.GPUs), err)
		}
		if n := mustChange(t, s, put(card("lab-card", 1), service.Created)); n != 1 {
			t.Errorf("the first change has the number %d", n)
		}
	})
}

// Writers at once, on several connections and stores, are put in a row: each sees
// what was there before it, and none is lost.
func TestConcurrentChanges(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		const writers, each = 4, 6
		migrated(t, name)
		var wait sync.WaitGroup
		for w := range writers {
			s := open(t, name)
			wait.Go(func() {
				for i := range each {
					_, err := s.ChangeCatalog(context.Background(), func(now *catalog.Contents) (*service.CatalogChange,
						error) {
						// Each card's memory counts the users' cards before it.
						users := int64(0)
						for _, g := range now.GPUs {
							if g.Origin == catalog.User {
								users++
							}
						}
						return put(card(fmt.Sprintf("card-%d-%d", w, i), users+1), service.Created)(now)
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
		seen := map[int64]bool{}
		gpus, err := load(t, open(t, name)).GPUs()
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range gpus {
			if g.Origin == catalog.User {
				if g.MemoryBytes != g.Revision || seen[g.Revision] {
					t.Errorf("%s: change %d saw %d cards before it", g.ID, g.Revision, g.MemoryBytes-1)
				}
				seen[g.Revision] = true
			}
		}
		if len(seen) != writers*each {
			t.Errorf("%d of %d changes are there", len(seen), writers*each)
		}
	})
}

// The mark changes with every change; the revision names the contents, on any database.
func TestRevisions(t *testing.T) {
	revisions := map[string][]string{}
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			s := migrated(t, b.create(t))
			for i, change := range []*catalog.GPU{card("a", 1), card("b", 2), card("a", 3)} {
				mustChange(t, s, put(change, service.Created))
				mark, err := s.CatalogMark(t.Context())
				if want := fmt.Sprintf("%s.%d", migrations.CatalogRevision, i+1); err != nil || mark != want {
					t.Errorf("mark %s, %v; want %s", mark, err, want)
				}
				revision := load(t, s).Revision()
				if !strings.HasPrefix(revision, mark+"-") {
					t.Errorf("revision %s of the mark %s", revision, mark)
				}
				revisions[b.name] = append(revisions[b.name], revision)
			}
		})
	}
	if a, b := revisions["sqlite"], revisions["postgres"]; b != nil && !slices.Equal(a, b) {
		t.Errorf("the same entries are called %v and %v", a, b)
	}
	other := migrated(t, backends[0].create(t))
	mustChange(t, other, put(card("a", 99), service.Created))
	if r := load(t, other).Revision(); r == revisions["sqlite"][0] {
		t.Errorf("different entries are both called %s", r)
	}
}

func TestHistory(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		mustChange(t, s, put(card("a", 1), service.Created))
		mustChange(t, s, put(card("b", 2), service.Created))
		mustChange(t, s, put(card("a", 3), service.Replaced))
		mustChange(t, s, func(*catalog.Contents) (*service.CatalogChange, error) {
			return &service.CatalogChange{Kind: service.GPUEntryKind, ID: "a", Action: service.Deleted,
				By: service.Author{KeyID: "other", Name: "Zoë"}, At: time.Now()}, nil
		})
		for _, c := range []struct {
			filter service.HistoryFilter
			want   string
		}{
			{service.HistoryFilter{Limit: 10}, "4 delete a by Zoë; 3 replace a by ci; 2 create b by ci; " +
				"1 create a by ci"},
			{service.HistoryFilter{Limit: 2}, "4 delete a by Zoë; 3 replace a by ci"},
			{service.HistoryFilter{Limit: 2, Before: 3}, "2 create b by ci; 1 create a by ci"},
			{service.HistoryFilter{Limit: 10, Kind: service.GPUEntryKind, ID: "b"}, "2 create b by ci"},
			{service.HistoryFilter{Limit: 10, Kind: service.ModelEntryKind}, ""},
		} {
			list, err := s.CatalogHistory(t.Context(), c.filter)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, h := range list {
				got = append(got, fmt.Sprintf("%d %s %s by %s", h.Change, h.Action, h.ID, h.By.Name))
				if (h.Entry == nil) != (h.Action == service.Deleted) {
					t.Errorf("change %d (%s) has the entry %s", h.Change, h.Action, h.Entry)
				}
			}
			if got := strings.Join(got, "; "); got != c.want {
				t.Errorf("%+v: %s, want %s", c.filter, got, c.want)
			}
		}
		list, err := s.CatalogHistory(t.Context(), service.HistoryFilter{Limit: 1, Before: 4})
		if err != nil {
			t.Fatal(err)
		}
		if want := time.Date(2026, 11, 22, 10, 0, 0, 123456000, time.UTC); !list[0].At.Equal(want) ||
			!strings.Contains(string(list[0].Entry), `"memory_bytes":3`) {
			t.Errorf("%s at %s", list[0].Entry, list[0].At)
		}
	})
}

func TestKeys(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		created := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
		expires := created.Add(time.Hour)
		want := []service.Key{
			{ID: "aaaaaaaaaa", Name: "ci", Hash: "h1", Scopes: []service.Scope{service.ScopeCatalogWrite},
				CreatedAt: created},
			{ID: "bbbbbbbbbb", Name: "Zoë's", Hash: "h2", Scopes: service.Scopes(), CreatedAt: created.Add(time.Second),
				ExpiresAt: &expires},
		}
		for _, k := range want {
			if err := s.CreateKey(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.CreateKey(t.Context(), want[0]); err == nil {
			t.Error("a key was stored twice")
		}
		if k, err := s.Key(t.Context(), "cccccccccc"); k != nil || err != nil {
			t.Errorf("a key that is not there: %+v, %v", k, err)
		}
		revoked := created.Add(time.Minute)
		for i, want := range []bool{true, false} {
			if ok, err := s.RevokeKey(t.Context(), "aaaaaaaaaa", revoked); ok != want || err != nil {
				t.Errorf("revoked the %d. time: %v, %v", i+1, ok, err)
			}
		}
		want[0].RevokedAt = &revoked
		got, err := s.Keys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-stored +read):\n%s", diff)
		}
		one, err := s.Key(t.Context(), "bbbbbbbbbb")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want[1], one); diff != "" {
			t.Errorf("(-stored +read):\n%s", diff)
		}
	})
}
