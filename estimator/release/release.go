package release

import "slices"

// Switch names a change, in lists and in a program's flags.
type Switch string

// Change is one thing that releases of a library do otherwise than the rest.
type Change struct {
	Library string `json:"library"`
	// From is the first release that is known to do so, "" where all before To do; To is the first that does not any
	// more, "" where the latest known one still does.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// After is the last release that is known not to do so yet, where releases lie between it and From.
	After string `json:"after,omitempty"`
	// Unless is a library whose version, where a job names it, decides instead.
	Unless string `json:"unless,omitempty"`
	What   string `json:"what"`
	Switch Switch `json:"switch"`
	// Source is a file of the library and the releases of it that were read; Shown is what of the repository's traces
	// shows it.
	Source string `json:"source"`
	Shown  string `json:"shown"`

	id ID
}

// ID is the change that the row belongs to.
func (c *Change) ID() ID { return c.id }

// Holds says whether the change is in the given release.
func (c *Change) Holds(v Version) bool {
	return c.between().has(point{Version: v})
}

// Unsure says that the release lies where nobody has looked: after the last one that is known not to have the change,
// and before the first one that is known to have it.
func (c *Change) Unsure(v Version) bool {
	after, given := Parse(c.After)
	from, _ := Parse(c.From)
	return given && after.Before(v) && v.Before(from)
}

// In are the changes that hold in a set of releases, by library: what is not in it counts as the default.
func In(given, defaults map[string]string) Set {
	set, _ := Holding(given, defaults, nil)
	return set
}

// Holding is In, with the changes that held says to be there, and without those that it says not to be, whatever the
// releases are. The rows are those that say so, in the order of [Changes]; they are shared, and for reading only.
func Holding(given, defaults map[string]string, held map[Switch]bool) (Set, []*Change) {
	var set Set
	all := known()
	rows := make([]*Change, 0, len(all.changes))
	var library string
	var v point
	known := false
	for i := range all.changes {
		c := &all.changes[i]
		if c.Library != library {
			library = c.Library
			if v, known = pointOf(given[library]); !known {
				v, known = pointOf(defaults[library])
			}
		}
		in, said := false, false
		if held != nil {
			in, said = held[c.Switch]
		}
		if !said && known && all.spans[i].has(v) {
			_, named := Parse(given[c.Unless])
			in = !named
		}
		if in {
			set.put(c.id)
			rows = append(rows, c)
		}
	}
	return set, rows
}

// span is between which releases a change holds.
type span struct {
	from, to point
	bounded  bool
}

func (s *span) has(v point) bool { return !v.before(s.from) && (!s.bounded || v.before(s.to)) }

func (c *Change) between() *span {
	from, _ := pointOf(c.From)
	to, bounded := pointOf(c.To)
	return &span{from, to, bounded}
}

// Stack is a set of releases whose allocations were traced.
type Stack struct {
	Name     string            `json:"name"`
	Releases map[string]string `json:"releases"`
	// Proven says what the traces have shown. Families are those that were equal event by event; none is all that there
	// are.
	Proven   string   `json:"proven"`
	Families []string `json:"families,omitempty"`
	// Unproven are the families that no trace on the stack shows.
	Unproven []string `json:"unproven,omitempty"`
	// EagerOnly says that neither steps under a compiler nor those over several GPUs were traced.
	EagerOnly bool `json:"eager_only,omitempty"`
}

// Proves says whether the stack's traces show the family, on one GPU and without a compiler where eager, else
// otherwise.
func (s *Stack) Proves(family string, eager bool) bool {
	if !eager && s.EagerOnly || slices.Contains(s.Unproven, family) {
		return false
	}
	return len(s.Families) == 0 || slices.Contains(s.Families, family)
}

// Traced is the stack that has these releases of torch and transformers, up to their minor numbers.
func Traced(torch, transformers Version) (*Stack, bool) {
	for i := range stacks {
		s := &stacks[i]
		if s.release("torch") == torch && s.release("transformers") == transformers {
			return s, true
		}
	}
	return nil, false
}

// Assumed is the stack whose releases count for what a job does not name: the newest one that is not newer than the
// torch and the transformers that it does name, or else the oldest. A job that names an old torch alone is not run with
// today's transformers.
func Assumed(given map[string]string) *Stack {
	for i := range stacks {
		if s := &stacks[i]; !s.newer(given, "torch") && !s.newer(given, "transformers") && !s.newer(given, "trl") {
			return s
		}
	}
	return &stacks[len(stacks)-1]
}

// newer says that the stack's release of a library came out after the given one.
func (s *Stack) newer(given map[string]string, library string) bool {
	v, named := Parse(given[library])
	return named && v.Before(s.release(library))
}

func (s *Stack) release(library string) Version {
	v, _ := Parse(s.Releases[library])
	return v
}
