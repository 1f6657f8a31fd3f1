package optim

import (
	"slices"
	"strings"
	"testing"
)

// TestOptimizerRowsAreWhole fails where a row of the table lacks a property or says two things at once.
func TestOptimizerRowsAreWhole(t *testing.T) {
	seen, defaults, spelled := map[[2]string]bool{}, map[string]int{}, map[string]bool{}
	for _, o := range Optimizers() {
		t.Run(o.Name+"/"+strings.Join(o.Implementations, ","), func(t *testing.T) {
			for _, lacking := range []struct {
				property string
				is       bool
			}{
				{"Name", o.Name == ""}, {"Implementations", len(o.Implementations) == 0}, {"Rate", o.Rate == 0},
				{"MovedBytes", o.MovedBytes == 0},
				{"Words", (o.Words == "") != o.Stateless()},
				{"the type of its states in Words", !o.OwnTypes && !o.Stateless() && strings.Count(o.Words, "%s") != 1},
				{"either Own or Moments, Lists and Loop", o.Own != nil &&
					(o.Moments > 0 || o.Lists > 0 || o.Loop != nil || o.Counter || o.Eager)},
				{"either Lists or Loop", o.Lists > 0 && o.Loop != nil},
				{"a kernel of its own, without temporaries", o.Fused && (o.Lists > 0 || o.Loop != nil)},
				{"states to be made in backward, not with the optimizer", o.Eager && o.InBackward},
				{"a code for its note", (o.Note.Code == "") != (o.Note.Text == "")},
			} {
				if lacking.is {
					t.Errorf("the row lacks %s", lacking.property)
				}
			}
			for _, i := range o.Implementations {
				if key := [2]string{o.Name, i}; seen[key] {
					t.Errorf("%q is in two rows", i)
				} else if seen[key] = true; i == "" {
					defaults[o.Name]++
				}
			}
			for _, a := range o.Aliases {
				if row, ok := OptimizerOf(a.Name, a.Implementation); !ok || row.Name != o.Name {
					t.Errorf("the alias %s means %s by %q, which is another row", a.Spelling, a.Name, a.Implementation)
				}
				if spelled[a.Spelling] || a.Spelling != strings.ToLower(strings.ReplaceAll(a.Spelling, "_", "-")) {
					t.Errorf("the alias %s is there twice, or not folded", a.Spelling)
				}
				spelled[a.Spelling] = true
			}
			for _, word := range slices.Concat(o.trainerWords(), o.Classes) {
				m := o.meant(word)
				if row, ok := OptimizerOf(m.Name, m.Implementation); !ok || !slices.Equal(row.Classes, o.Classes) ||
					!slices.Equal(row.trainerWords(), o.trainerWords()) {
					t.Errorf("%s means %s by %q, which is another row", word, m.Name, m.Implementation)
				}
				if spelled[word] {
					t.Errorf("%s is there twice", word)
				}
				spelled[word] = true
			}
		})
	}
	for key := range seen {
		if defaults[key[0]] != 1 {
			t.Errorf("%s has %d rows for a job that names no implementation", key[0], defaults[key[0]])
		}
	}
}
