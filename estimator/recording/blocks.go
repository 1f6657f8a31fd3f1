package recording

import (
	"fmt"
	"strconv"
	"strings"
)

// maxBlocks is how many blocks a program has at most, maxUnfolded how many lines all uses of them in a recording stand
// for beside a multiple of those that are written.
const (
	maxBlocks   = 1000
	maxUnfolded = 40_000
	mostTimes   = 8
)

// blocks are the lines of a program that stand in it more than once.
type blocks struct {
	list [][]string
	// left is for how many more lines uses may stand.
	left *int
}

// bases are what the numbers behind a ~ count from: the values and nodes that were made before a block, the parameter
// that the use names, and the module that ~ stands for in names.
type bases struct {
	used                    bool
	value, node, parameters int
	module                  string
}

// use is where a block's lines stand among all.
type use struct {
	from, to, parameters int
	module               string
}

// unfold puts the lines of blocks in the place of lines such as "* 3 40 encoder.block.2", block 3 with its parameters
// from 40 on.
func (b *blocks) unfold(lines []string) (all []string, uses []use, err error) {
	if len(b.list) == 0 {
		return lines, nil, nil
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, "*") {
			all = append(all, line)
			continue
		}
		var list [mostFields + 1]string
		f, err := fields(line, &list, 3)
		if err != nil {
			return nil, nil, fmt.Errorf("line %d, %.80q: %w", i+1, line, err)
		}
		r := reader{}
		n, u := r.number(f[0], len(b.list)-1), use{from: len(all), parameters: r.number(f[1], maxLines),
			module: r.name(f[2])}
		if r.err != nil {
			return nil, nil, fmt.Errorf("line %d, %.80q: %w", i+1, line, r.err)
		}
		if *b.left -= len(b.list[n]); *b.left < 0 || len(all)+len(b.list[n]) > maxLines {
			return nil, nil, fmt.Errorf("line %d, %.80q: blocks stand for too many lines", i+1, line)
		}
		all = append(all, b.list[n]...)
		u.to = len(all)
		uses = append(uses, u)
	}
	return all, uses, nil
}

// at sets what numbers count from in line i of those of unfold, and returns the uses that lie behind it.
func (s *scope) at(i int, uses []use) []use {
	for len(uses) > 0 && i >= uses[0].to {
		uses, s.bases = uses[1:], bases{}
	}
	if len(uses) > 0 && i == uses[0].from {
		s.bases = bases{true, len(s.own), len(s.nodes), uses[0].parameters, uses[0].module}
	}
	return uses
}

// relative is a number that may count from a base.
func (s *scope) relative(r *reader, text string, base, most int) int {
	rest, ok := strings.CutPrefix(text, "~")
	if !ok {
		return r.number(text, most)
	}
	n, err := strconv.ParseInt(rest, 10, 31)
	if n += int64(base); err != nil || !s.bases.used || n < 0 || n > int64(most) {
		r.fail("%.20q is no number of a block", text)
		return 0
	}
	return int(n)
}

// module is the name of a module, in which ~ stands for that of a block.
func (s *scope) module(r *reader, text string) string {
	if rest, ok := strings.CutPrefix(text, "~"); ok && s.bases.used {
		text = s.bases.module + rest
	}
	return r.name(text)
}
