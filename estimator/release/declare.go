package release

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// ID is a change that the replay asks a [Set] for. Zero is none of them.
type ID uint8

// A change of a library stands once: as a variable in the file where it acts, which [Declare] gives its ID,
//
//	// stridedBias lets T5's sdpa have a bias that is strided.
//	var stridedBias = release.Declare("strides-bias", release.Change{Library: "transformers", From: "5.15", ...})
//
// and where that is asked for: t.Recipe.Software.Has(stridedBias). Which number an ID is depends on the order in which
// the variables of a program are made, and nothing else does: [Changes] brings them into an order of their own.
var declared struct {
	switches []Switch // of ID 1 and so on
	rows     []Change
	read     bool
}

// Declare makes a change known under the name of its switch, with a row for each library whose releases decide. It
// is called for variables of packages, and panics once the changes were read.
func Declare(of Switch, rows ...Change) ID {
	if declared.read || slices.Contains(declared.switches, of) || len(declared.switches) == most {
		panic(fmt.Sprintf("%s is declared twice, after the changes were read, or is the %d. change", of, most+1))
	}
	declared.switches = append(declared.switches, of)
	id := ID(len(declared.switches))
	for _, row := range rows {
		row.Switch, row.id = of, id
		declared.rows = append(declared.rows, row)
	}
	return id
}

// Switch is the name that a change has in lists.
func (i ID) Switch() Switch {
	if i == 0 {
		return ""
	}
	return declared.switches[i-1]
}

// Declared is the change of a name.
func Declared(s Switch) (ID, bool) {
	i := slices.Index(declared.switches, s)
	return ID(i + 1), i >= 0
}

// most is how many changes there can be.
const most = 255

// Set is a set of changes, such as those that are in a job's releases.
type Set [(most + 1) / 64]uint64

// Has says whether the change is in the set.
func (s *Set) Has(c ID) bool { return s[c/64]&(1<<(c%64)) != 0 }

func (s *Set) put(c ID) { s[c/64] |= 1 << (c % 64) }

// known are all changes with the releases between which they hold, read once.
var known = sync.OnceValue(func() (k struct {
	changes []Change
	spans   []span
}) {
	declared.read = true
	k.changes = slices.Clone(declared.rows)
	slices.SortFunc(k.changes, order)
	k.spans = make([]span, len(k.changes))
	for i := range k.changes {
		k.spans[i] = *k.changes[i].between()
	}
	return k
})

// libraries are in the order in which changes of theirs are listed; others come behind them by name.
var libraries = []string{"torch", "cuda", "transformers", "accelerate", "peft", "bitsandbytes", "trl"}

// order is that of lists: by library, by the release in which a change came, those first that were always there, and by
// the source.
func order(a, b Change) int {
	library := func(c *Change) int {
		if i := slices.Index(libraries, c.Library); i >= 0 {
			return i
		}
		return len(libraries)
	}
	return cmp.Or(cmp.Compare(library(&a), library(&b)), cmp.Compare(a.Library, b.Library),
		compare(a.From, b.From), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Switch, b.Switch))
}

// compare is the order in which two releases came.
func compare(a, b string) int {
	v, _ := pointOf(a)
	w, _ := pointOf(b)
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.patch, w.patch))
}

// Changes are all that is known to have changed: what the packages of a program declare, all where it has package
// estimator. They are shared, and for reading only.
func Changes() []Change { return known().changes }
