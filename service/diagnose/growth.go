package diagnose

import (
	"regexp"
	"slices"
	"strings"
)

// reading is what a log says is allocated at one of its steps.
type reading struct {
	line  int // from 1
	bytes int64
}

var (
	// logged is a figure of memory in a line of a training loop: "mem 12.3GiB", "gpu_mem_alloc: 9.8 GB", "memory
	// allocated = 8123 MiB".
	logged = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:(?:gpu|cuda|max|peak|vram|torch)[ _]?)*(?:mem(?:ory)?|vram|alloc(?:ated)?)(?:[ _]?(?:alloc(?:ated)?|used|usage|gb|mb|gib|mib))?["']?\s*[:=(]?\s*([0-9]+(?:\.[0-9]+)?)\s*([GM]i?B|[GM])(?:[^a-z]|$)`)
	// notLogged are lines whose figures are of a card, of a failure or of what is only reserved.
	notLogged = regexp.MustCompile(`(?i)tried to allocate|total capacity|MiB\s*/|reserved|available|free|\bcpu\b|\bram\b|swap|shared memory`)
)

// A leak has to be seen in at least leakReadings figures that rise nearly always, by a fifth and half a GiB in all, and
// as fast in the second half as in the first: what a first epoch with ever longer samples makes grows less and less.
const (
	leakReadings = 6
	leakRising   = 0.8
	leakShare    = 1.2
	leakLeast    = 512 * mib
)

// growing finds figures above line at that rise from step to step; ok is false where they do not.
func growing(all []line, at int) (first, last reading, count int, ok bool) {
	var list []reading
	for i := range min(len(all), max(0, at-1)) {
		text := all[i].text
		if all[i].rank > 0 || notLogged.MatchString(text) {
			continue
		}
		m := logged.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		unit := m[2]
		if len(unit) == 1 {
			unit += "iB"
		}
		if s, isSize := parseSize(m[1], strings.ToUpper(unit[:1])+unit[1:]); isSize && s.bytes > 0 {
			list = append(list, reading{i + 1, s.bytes})
		}
	}
	if len(list) < leakReadings {
		return first, last, 0, false
	}
	var rises []int64
	up := 0
	for i := 1; i < len(list); i++ {
		rise := list[i].bytes - list[i-1].bytes
		rises = append(rises, rise)
		if rise > 0 {
			up++
		}
	}
	first, last = list[0], list[len(list)-1]
	half := len(rises) / 2
	early, late := list[half].bytes-first.bytes, last.bytes-list[len(list)-1-half].bytes
	ok = float64(up) >= leakRising*float64(len(rises)) && last.bytes-first.bytes >= leakLeast &&
		float64(last.bytes) >= leakShare*float64(first.bytes) &&
		2*late >= early && 3*slices.Max(rises) < 2*(last.bytes-first.bytes) // one jump is not a leak
	return first, last, len(list), ok
}

// leak puts a failure down to tensors that are kept from step to step, where the log shows it and nothing surer says
// another cause.
func (c *Cause) leak(all []line, at int) {
	first, last, count, ok := growing(all, at)
	if !ok {
		return
	}
	say := "the log shows " + formatBytes(first.bytes) + " at line " + itoa(int64(first.line)) + " and " +
		formatBytes(last.bytes) + " at line " + itoa(int64(last.line)) +
		", rising in nearly all of " + itoa(int64(count)) + " figures between: something is kept from one " +
		"step to the next"
	switch c.Class {
	case ClassUnknown, ClassFloor, ClassLogits, ClassActivations, ClassAttentionScores, ClassGradients,
		ClassPrecisionCopies:
		c.Candidates = nil
		c.settle(ClassHeld, ClassOnly, say)
	case ClassOptimizerState, ClassOptimizerTemporary, ClassEval, ClassInference:
		c.Notes = append(c.Notes, strings.ToUpper(say[:1])+say[1:]+".")
	}
}
