package value

import (
	"context"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// World is what a program can know of where it runs.
type World struct {
	// Word is what the command line says for an argument by one of its names, without dashes; nil where there is no
	// command line.
	Word func(names ...string) (setting.Value, bool)
	// Open says that nobody knows the command line yet: a branch that rests on it may go either way.
	Open bool
	// Pairs are the words KEY=VALUE of the command line.
	Pairs *setting.Settings
	// Env is a variable that the script exports; nil where nobody knows any.
	Env func(name string) (setting.Value, bool)
	// Load decodes a file that the program opens, of the format (yaml, json, toml); nil where there are no files.
	Load func(name, format string) (*setting.Settings, bool)
	// Steps is how much of the program is followed; 0 is as much as there may be.
	Steps int
	// Until ends what counts for Values, at the first statement of the module that begins with it; "" counts all.
	Until string
}

// Limits of one program. A training program of transformers' examples takes some thousand steps.
const (
	maxSteps   = 100000
	minSteps   = 20000
	maxDepth   = 24
	maxCalls   = 4000
	maxActive  = 3
	maxTurns   = 64
	maxEntries = 2048
	maxString  = 1 << 14
)

// Set is an attribute that a program sets: model.config.use_cache.
type Set struct {
	Name string
	Line int
}

// Followed is what a program does, as far as that can be followed.
type Followed struct {
	// Values are those of the module's names at its end, or at World.Until.
	Values *setting.Settings
	// Fields are the arguments that the program declares, with their defaults, and Aliases further names of them.
	Fields  *setting.Settings
	Aliases map[string]string
	// Calls are the calls that are made, in the order of their places.
	Calls []Call
	// Sets are the attributes that are set, as they are written.
	Sets []Set
	// Environ are the variables of the environment that the program sets.
	Environ *setting.Settings
	// Rests are the arguments that a call, or a branch that was taken or not, rests on.
	Rests map[string]bool
	// Steps is how much of the program was followed.
	Steps int
	// Stopped is the line at which the limits ended the reading; 0 where they did not.
	Stopped int
}

// flow is how a statement ends.
type flow int

const (
	onward flow = iota
	returned
	raised
	broke
	continued
)

type change struct {
	table *Table
	key   string
	old   Value
	had   bool
}

type follower struct {
	// ends are where lines end; nil before anybody asks.
	ends   []int
	ctx    context.Context
	world  World
	file   string
	source []byte
	out    *Followed

	steps, depth int
	// maybe counts the reasons for which what is followed may not run, and silent those for which nothing is recorded.
	maybe, silent int
	changes       *[]change
	modules       *scope
	environ       *Table
	reached       map[*python.Node]bool
	active        map[*python.Node]int
	functions     []*function
	objects       []*Table
	result        []Value
	calls         []*Call
	// building is what is put together, where a function is followed for that.
	building *Built
	byNode   map[*python.Node][]*Call
}

// Follow follows a program from its first line to its last.
func Follow(ctx context.Context, file string, source []byte, module *python.Node, w World) *Followed {
	f := newFollower(ctx, file, source, w)
	body, rest := module.List("body"), []*python.Node(nil)
	for i, n := range body {
		if w.Until != "" && strings.HasPrefix(string(source[n.Start:n.End]), w.Until) {
			body, rest = body[:i], body[i:]
			break
		}
	}
	f.block(body, f.modules)
	for _, key := range f.modules.vars.keys {
		if v := f.modules.vars.at[key]; v.Origin.At.Known() {
			f.out.Values.Set(key, f.plain(v, 0))
		}
	}
	f.block(rest, f.modules)
	declaration{f}.commands()
	f.callbacks()
	if !f.configures() {
		f.others()
	}
	for _, key := range f.environ.keys {
		f.out.Environ.Set(key, f.plain(f.environ.at[key], 0))
	}
	f.out.Steps = f.steps
	f.finish()
	return f.out
}

func newFollower(ctx context.Context, file string, source []byte, w World) *follower {
	if most := min(maxSteps, minSteps+16*len(source)); w.Steps <= 0 || w.Steps > most {
		w.Steps = most
	}
	f := &follower{ctx: ctx, world: w, file: file, source: source, environ: newTable(dict),
		out: &Followed{Values: setting.New(), Fields: setting.New(), Aliases: map[string]string{},
			Environ: setting.New(), Rests: map[string]bool{}},
		reached: map[*python.Node]bool{}, active: map[*python.Node]int{}, byNode: map[*python.Node][]*Call{}}
	f.modules = &scope{vars: newTable(dict)}
	f.modules.vars.put("__name__", known("__main__"))
	f.modules.vars.put("__file__", known(file))
	return f
}

// configures says whether what was followed makes a trainer, loads a model or says how to train.
func (f *follower) configures() bool {
	for _, c := range f.calls {
		last := c.Last()
		for _, end := range []string{"Trainer", "Arguments", "Config", "from_pretrained"} {
			if strings.HasSuffix(last, end) {
				return true
			}
		}
	}
	return false
}

// callbacks follows methods of objects whose classes derive of others, which those call.
func (f *follower) callbacks() {
	for i := 0; i < len(f.objects) && i < maxEntries; i++ {
		o := f.objects[i]
		if o.class == nil || !o.class.isOutside() {
			continue
		}
		self := known(o)
		for _, key := range o.class.body.keys {
			if fn, ok := o.class.body.at[key].Any.(*function); ok && !f.reached[fn.node] {
				f.maybe++
				f.enter(&function{node: fn.node, scope: fn.scope, self: &self, of: fn.of, defaults: fn.defaults}, nil)
				f.maybe--
			}
		}
	}
}

// others follows the functions that nothing in the file calls: it is a module of a program that is not here.
func (f *follower) others() {
	for i := 0; i < len(f.functions) && i < maxEntries; i++ {
		if fn := f.functions[i]; !f.reached[fn.node] {
			f.enter(fn, nil)
		}
	}
}

// tick counts a step, and reports whether there are any left.
func (f *follower) tick(n *python.Node) bool {
	if f.out.Stopped != 0 {
		return false
	}
	f.steps++
	if f.steps > f.world.Steps || f.steps%512 == 0 && f.ctx.Err() != nil {
		f.out.Stopped = max(n.Line, 1)
		return false
	}
	return true
}

// afford counts what is made or compared besides statements, and reports whether there is any left.
func (f *follower) afford() bool {
	f.steps++
	return f.out.Stopped == 0 && f.steps <= f.world.Steps
}

func (f *follower) set(t *Table, key string, v Value) {
	if len(t.keys) >= maxEntries && key != open {
		if _, ok := t.at[key]; !ok {
			key, v = open, unknown("has more entries than are followed")
		}
	}
	f.note(t, key)
	t.put(key, v)
}

func (f *follower) remove(t *Table, key string) {
	f.note(t, key)
	t.drop(key)
}

// note remembers an entry as it was, to be able to go back.
func (f *follower) note(t *Table, key string) {
	if f.changes != nil {
		old, had := t.at[key]
		*f.changes = append(*f.changes, change{t, key, old, had})
	}
}

type place struct {
	table *Table
	key   string
}

// branch runs what may run or not, takes back what it changed, and gives what it would have left.
func (f *follower) branch(do func()) (order []place, left map[place]change) {
	outer := f.changes
	var own []change
	f.changes = &own
	do()
	f.changes = outer
	left = map[place]change{}
	for _, c := range own {
		p := place{c.table, c.key}
		if _, ok := left[p]; ok {
			continue
		}
		now, has := c.table.at[c.key]
		order = append(order, p)
		left[p] = change{c.table, c.key, now, has}
	}
	for i := len(own) - 1; i >= 0; i-- {
		if c := own[i]; c.had {
			c.table.put(c.key, c.old)
		} else {
			c.table.drop(c.key)
		}
	}
	return order, left
}

// either follows two ways of which one is taken, and joins what they leave. One that ends the function leaves its own
// names to nobody.
func (f *follower) either(line int, one, two func() flow) flow {
	var ends [2]flow
	var orders [2][]place
	var lefts [2]map[place]change
	f.maybe++
	for i, do := range []func() flow{one, two} {
		orders[i], lefts[i] = f.branch(func() { ends[i] = do() })
	}
	f.maybe--
	if ends[0] == raised && ends[1] != raised {
		lefts[0], orders[0] = nil, nil
	} else if ends[1] == raised && ends[0] != raised {
		lefts[1], orders[1] = nil, nil
	}
	only := -1
	for i := range 2 {
		if ends[i] == raised && ends[1-i] != raised {
			only = 1 - i
		}
	}
	seen := map[place]bool{}
	for _, p := range append(orders[0], orders[1]...) {
		if seen[p] {
			continue
		}
		seen[p] = true
		now, has := p.table.at[p.key]
		was := change{p.table, p.key, now, has}
		a, okA := lefts[0][p]
		b, okB := lefts[1][p]
		if !okA {
			a = was
		}
		if !okB {
			b = was
		}
		switch {
		case only == 0:
			b = a
		case only == 1:
			a = b
		}
		switch {
		case !a.had && !b.had:
			f.remove(p.table, p.key)
		case !a.had || !b.had:
			v := a.old
			if !a.had {
				v = b.old
			}
			if t, isTable := v.Any.(*Table); p.key != open && v.Unknown == "" && (!isTable || t.kind != object) {
				if _, isOutside := v.Any.(outside); !isOutside {
					v = changedAt(v, line)
				}
			}
			f.set(p.table, p.key, v)
		default:
			v := f.common(a.old, b.old, line, 0)
			v.Origin = b.old.Origin
			if !v.Origin.At.Known() {
				v.Origin = a.old.Origin
			}
			f.set(p.table, p.key, v)
		}
	}
	switch {
	case ends[0] == ends[1]:
		return ends[0]
	case ends[0] == raised:
		return ends[1]
	case ends[1] == raised:
		return ends[0]
	case ends[0] != onward && ends[1] != onward:
		return returned
	}
	return maybeEnded
}

// maybeEnded says that the rest may not run.
const maybeEnded flow = -1

func changedAt(v Value, line int) Value {
	out := unknown(fmt.Sprintf("is changed at line %d in a way that cannot be followed without running it", line), v)
	out.Origin = v.Origin
	return out
}

// block follows statements until one ends them.
func (f *follower) block(list []*python.Node, s *scope) flow {
	maybe := 0
	defer func() { f.maybe -= maybe }()
	for _, n := range list {
		if !f.tick(n) {
			return raised
		}
		switch end := f.statement(n, s); end {
		case onward:
		case maybeEnded:
			maybe++
			f.maybe++
		default:
			if maybe > 0 {
				return maybeEnded
			}
			return end
		}
	}
	if maybe > 0 {
		return maybeEnded
	}
	return onward
}
