package programs

import (
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// A program that configures itself hands its own arguments on:
// TrainingArguments(per_device_train_batch_size=args.batch) of argparse's namespace or of a dataclass that
// HfArgumentParser fills, or a parameter of the function that fire.Fire calls.
var (
	namespace = regexp.MustCompile(`(?m)^[ \t]*\(?([A-Za-z_][\w \t,]*?)\)?[ \t]*(?::[^=\n]*)?=[^=\n]*?` +
		`\bparse_(?:(?:known_)?args(?:_into_dataclasses)?|args_and_config)\(`)
	fired = regexp.MustCompile(`\bfire\.Fire\(\s*([A-Za-z_]\w*)\s*\)|\bFire\(\s*([A-Za-z_]\w*)\s*\)`)
)

// Declared are arguments that a program declares, and what holds them in it: args of args.batch, "" where they are the
// parameters of a function.
type Declared struct {
	Holder   string
	Settings *setting.Settings
}

// Arguments are those that the program declares, as often as something holds them.
func (p *Program) Arguments() []Declared {
	if p.arguments != nil {
		return p.arguments
	}
	p.arguments = []Declared{}
	for _, m := range namespace.FindAllSubmatch(p.Source, -1) {
		for _, holder := range strings.Split(string(m[1]), ",") {
			if holder = strings.TrimSpace(holder); holder != "" && holder != "_" {
				p.arguments = append(p.arguments, Declared{holder, p.Fields})
			}
		}
	}
	for _, m := range fired.FindAllSubmatch(p.Source, -1) {
		p.arguments = append(p.arguments, Declared{"", p.Parameters(strings.TrimSpace(string(m[1]) + string(m[2])))})
	}
	return p.arguments
}
