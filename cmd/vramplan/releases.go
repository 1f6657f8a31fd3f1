package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator/release"
)

type releasesCommand struct {
	serverFlags `embed:"" group:"Answers:"`
	outputFlags `embed:""`
}

// Run lists what releases of the training software changed in the replay.
func (c *releasesCommand) Run(ctx context.Context, t *terminal) error {
	b, err := c.backend(t)
	if err != nil {
		return err
	}
	body, err := b.get(ctx, "/v1/releases")
	if err != nil {
		return err
	}
	out := bufio.NewWriter(t.stdout)
	if c.format() == "json" {
		return errors.Join(jsonLines{}.one(out, answer{body: body}), out.Flush())
	}
	var list struct {
		Stacks  []release.Stack
		Changes []release.Change
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("reading the list of releases: %w", err)
	}
	if c.Wide || c.format() == "markdown" {
		_, err = out.WriteString(release.Markdown(list.Stacks, list.Changes))
		return errors.Join(err, out.Flush())
	}
	showReleases(out, list.Stacks, list.Changes)
	return out.Flush()
}

// showReleases prints what was traced, and what changed.
func showReleases(w io.Writer, stacks []release.Stack, changes []release.Change) {
	for _, s := range stacks {
		var names []string
		for _, library := range slices.Sorted(maps.Keys(s.Releases)) {
			names = append(names, library+" "+s.Releases[library])
		}
		fmt.Fprintln(w, s.Name)
		screen.WriteHanging(w, "  ", "  ", strings.Join(names, ", "))
		screen.WriteHanging(w, "  proven: ", "      ", s.Shown())
	}
	fmt.Fprintln(w, "\nWhat changed, and what shows it")
	for i := range changes {
		c := &changes[i]
		screen.WriteHanging(w, "* ", "  ", c.What)
		screen.WriteHanging(w, "      ", "      ", fmt.Sprintf("%s %s: %s; %s; %s", c.Library, c.Span(), c.Switch,
			c.Source,
			c.Shown))
	}
}
