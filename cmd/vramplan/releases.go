package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
	_, err = out.WriteString(release.Markdown(list.Stacks, list.Changes))
	return errors.Join(err, out.Flush())
}
