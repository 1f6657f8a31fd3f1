package readers

import (
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// A program that configures itself hands its own arguments on:
// TrainingArguments(per_device_train_batch_size=args.batch) of argparse's namespace, or a parameter of the function
// that fire.Fire calls.
var (
	ownName   = regexp.MustCompile(`^(?:([A-Za-z_]\w*)\.)?([A-Za-z_]\w*)$`)
	namespace = regexp.MustCompile(`(?m)^[ \t]*([A-Za-z_]\w*)[ \t]*(?:,[ \t]*\w+)?[ \t]*=[ \t]*[\w.]*\.?` +
		`parse_(?:known_)?args\(`)
	fired = regexp.MustCompile(`\bfire\.Fire\(\s*([A-Za-z_]\w*)\s*\)|\bFire\(\s*([A-Za-z_]\w*)\s*\)`)
)

// bindArguments gives the values of calls that are arguments of the program their values: those of the command line, or
// the defaults that the program declares. What the program assigns to afterwards stays unknown, and a word about memory
// that no call takes is asked about.
func (r *reading) bindArguments() {
	given, _, open := options(r.args, nil)
	if r.program.text() == "" || len(open) > 0 {
		return
	}
	used := map[string]bool{}
	bind := func(holder string, declared *setting.Settings) {
		value := func(v setting.Value) (setting.Value, bool) {
			m := ownName.FindStringSubmatch(v.Text)
			if v.Unknown == "" || m == nil || m[1] != holder {
				return v, false
			}
			fallback, known := declared.Peek(m[2])
			if !known || r.code.Sets(v.Text) {
				return v, false
			}
			if own, ok := given.Get(m[2]); ok {
				used[m[2]] = true
				return own, true
			}
			return fallback, true
		}
		for _, c := range r.code.Calls {
			for _, key := range c.Keywords.Keys() {
				old, _ := c.Keywords.Peek(key)
				if v, ok := value(old); ok {
					c.Keywords.Replace(key, v)
				}
			}
			for i, old := range c.Position {
				if v, ok := value(old); ok {
					c.Position[i] = v
				}
			}
		}
	}
	for _, m := range namespace.FindAllSubmatch(r.code.Source, -1) {
		bind(string(m[1]), r.code.Fields)
	}
	for _, m := range fired.FindAllSubmatch(r.code.Source, -1) {
		bind("", r.code.Parameters(strings.TrimSpace(string(m[1])+string(m[2]))))
	}
	for _, key := range given.Keys() {
		if v, _ := given.Peek(key); !used[key] && mayChangeMemory(key, v) && (v.Unknown != "" || !isOff(v)) {
			r.d.askWord(v)
		}
	}
}
