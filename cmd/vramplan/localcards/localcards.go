// Package localcards finds the cards of this machine and what is free of their memory, as nvidia-smi says it.
package localcards

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
)

// smiTimeout is how long nvidia-smi may take: some seconds where the driver is loaded by it.
const smiTimeout = 15 * time.Second

// Card is a card as a job names it.
type Card struct {
	Name        string `json:"name"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	FreeBytes   *int64 `json:"free_bytes,omitempty"`
}

// Smi asks the driver's tool.
func Smi(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, smiTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "nvidia-smi", args...)
	command.WaitDelay = time.Second
	out, err := command.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", errors.New("nvidia-smi is not on the PATH: there is no NVIDIA driver here, or this is another machine " +
			"than the one with the cards")
	case ctx.Err() != nil:
		return "", fmt.Errorf("nvidia-smi did not answer within %s", smiTimeout)
	case err != nil:
		said := strings.TrimSpace(string(out)) // it reports on standard output
		if failed, ok := errors.AsType[*exec.ExitError](err); ok && said == "" {
			said = strings.TrimSpace(string(failed.Stderr))
		}
		return "", fmt.Errorf("nvidia-smi: %w: %.300s", err, screen.Plain(strings.Join(strings.Fields(said), " ")))
	}
	return string(out), nil
}

// Find lists the cards. One that is cut is its slices, of whose memory nvidia-smi's table says nothing: they are
// taken to be free.
func Find(ctx context.Context) (cards []Card, err error) {
	text, err := Smi(ctx, "--query-gpu=index,name,memory.total,memory.free,mig.mode.current",
		"--format=csv,noheader,nounits")
	if err != nil {
		return nil, err
	}
	rows := csv.NewReader(strings.NewReader(text))
	rows.TrimLeadingSpace, rows.FieldsPerRecord, rows.LazyQuotes = true, -1, true
	lines, err := rows.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi's table cannot be read: %w", err)
	}
	var parts map[string][]string
	for _, line := range lines {
		if len(line) < 5 {
			return nil, fmt.Errorf("nvidia-smi's table has a row without index, name, total and free memory and MIG mode: "+
				"%.100q", strings.Join(line, ", "))
		}
		index, name, mig := strings.TrimSpace(line[0]), strings.TrimSpace(line[1]), strings.TrimSpace(line[4])
		if mig == "Enabled" {
			if parts == nil {
				if parts, err = findSlices(ctx); err != nil {
					return nil, err
				}
			}
			for _, profile := range parts[index] {
				cards = append(cards, Card{Name: name + "-MIG-" + profile})
			}
			continue
		}
		total, errTotal := strconv.ParseInt(strings.TrimSpace(line[2]), 10, 64)
		free, errFree := strconv.ParseInt(strings.TrimSpace(line[3]), 10, 64)
		if errTotal != nil || errFree != nil || total <= 0 || free < 0 || free > total || total > 1<<30 {
			return nil, fmt.Errorf("nvidia-smi says of %s that it has %.30q MiB, of which %.30q are free", name, line[2],
				line[3])
		}
		bytes := free << 20
		cards = append(cards, Card{Name: name, MemoryBytes: total << 20, FreeBytes: &bytes})
	}
	if len(cards) == 0 {
		return nil, errors.New("nvidia-smi lists no card that a process could use")
	}
	return cards, nil
}

// cardLine and sliceLine are lines of nvidia-smi -L.
var (
	cardLine  = regexp.MustCompile(`^GPU (\d+): `)
	sliceLine = regexp.MustCompile(`^\s+MIG (\S+)\s+Device\s+\d+:`)
)

// findSlices are the profiles of the slices by the index of their card.
func findSlices(ctx context.Context) (map[string][]string, error) {
	text, err := Smi(ctx, "-L")
	if err != nil {
		return nil, err
	}
	found, card := map[string][]string{}, ""
	for line := range strings.Lines(text) {
		if m := cardLine.FindStringSubmatch(line); m != nil {
			card = m[1]
		} else if m := sliceLine.FindStringSubmatch(line); m != nil {
			found[card] = append(found[card], m[1])
		}
	}
	return found, nil
}
