package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// releasedModelSeeds are those before modelSeed, in the order in which a database has run them.
var releasedModelSeeds = []string{"00003_seed_models.sql", "00009_seed_models.sql",
	"00010_seed_models.sql", "00011_seed_models.sql", "00012_seed_models.sql", "00013_seed_models.sql"}

// seededRow is an entry's line in a seed: its id and its document.
var seededRow = regexp.MustCompile(`(?m)^\('((?:[^']|'')*)', 'builtin', (?:\d+, )+'((?:[^']|'')*)', '`)

// revise says of each row how many states its entry has had, this one included: no two states have one number,
// whichever seeds a database has run.
func revise(rows []row, folder string, seeds []string) error {
	states := map[string][]string{}
	for _, name := range seeds {
		text, err := os.ReadFile(folder + "/" + name)
		if err != nil {
			return fmt.Errorf("read a released seed: %w", err)
		}
		found := seededRow.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			return fmt.Errorf("no entries in %s", name)
		}
		for _, m := range found {
			id, document := strings.ReplaceAll(m[1], "''", "'"), strings.ReplaceAll(m[2], "''", "'")
			if had := states[id]; len(had) == 0 || had[len(had)-1] != document {
				states[id] = append(had, document)
			}
		}
	}
	for i, r := range rows {
		had := states[r.id]
		rows[i].revision = len(had)
		if len(had) == 0 || had[len(had)-1] != string(r.document) {
			rows[i].revision++
		}
	}
	return nil
}
