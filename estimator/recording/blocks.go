package recording

import (
	"fmt"
	"strconv"
	"strings"
)

// maxBlocks is how many blocks a recording or a program has at most, maxUnfolded how many lines all uses of them in a
// recording stand for beside a multiple of those that are written, maxOwn how much each use has of its own,
// and maxLine how long a line is with it.
const (
	maxBlocks   = 1000
	maxOwn      = 1000
	maxLine     = 16 << 10
	maxUnfolded = 40_000
	mostTimes   = 8
)

// blocks are the lines of programs that stand in them more than once.
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

// unfold puts the lines of blocks in the place of lines such as "* 3 40 encoder.block.2 448B,bf16", block 3 with its
// parameters from 40 on, 448B for $0 and bf16 for $1.
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
		f, err := fields(line, &list, 3+max(0, min(1, strings.Count(line, " ")-3)))
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
		if all, err = b.fill(all, b.list[n], f[3:]); err != nil {
			return nil, nil, fmt.Errorf("line %d, %.80q: %w", i+1, line, err)
		}
		u.to = len(all)
		uses = append(uses, u)
	}
	return all, uses, nil
}

// fill adds the lines of a block to all, with a use's own in the places of $0, $1 and so on.
func (b *blocks) fill(all, lines, own []string) ([]string, error) {
	if len(own) == 0 {
		return append(all, lines...), nil
	}
	values := strings.SplitN(own[0], ",", maxOwn+1)
	if len(values) > maxOwn {
		return nil, fmt.Errorf("has more than %d of its own", maxOwn)
	}
	for _, line := range lines {
		if strings.IndexByte(line, '$') >= 0 {
			var err error
			if line, err = b.filled(line, values); err != nil {
				return nil, err
			}
		}
		all = append(all, line)
	}
	return all, nil
}

// filled is a line of a block with values in it. A long one counts as several lines, since it is made anew.
func (b *blocks) filled(line string, values []string) (string, error) {
	const countsAsLine = 256
	made := make([]byte, 0, 2*len(line))
	for rest := line; ; {
		before, behind, found := strings.Cut(rest, "$")
		made = append(made, before...)
		if !found {
			if *b.left -= len(made) / countsAsLine; *b.left < 0 {
				return "", fmt.Errorf("blocks stand for too much")
			}
			return string(made), nil
		}
		digits := 0
		for digits < len(behind) && behind[digits] >= '0' && behind[digits] <= '9' {
			digits++
		}
		n, err := strconv.ParseUint(behind[:digits], 10, 31)
		if err != nil || n >= uint64(len(values)) {
			return "", fmt.Errorf("the block has %.20q, and %d are given", "$"+behind, len(values))
		}
		if len(made)+len(values[n]) > maxLine {
			return "", fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
		made, rest = append(made, values[n]...), behind[digits:]
	}
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
