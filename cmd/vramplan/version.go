package main

import (
	"bufio"
	"context"
	"errors"
	"runtime/debug"
)

type versionCommand struct {
	serverFlags `embed:"" group:"Answers:"`
	outputFlags `embed:""`
}

// Run prints the versions that an answer carries. The same request with the same
// versions gives the same bytes.
func (c *versionCommand) Run(ctx context.Context, t *terminal) error {
	b, err := c.backend(t)
	if err != nil {
		return err
	}
	body, err := b.get(ctx, "/v1/version")
	if err != nil {
		return err
	}
	out := bufio.NewWriter(t.stdout)
	if c.format() == "json" {
		return errors.Join(jsonLines{}.one(out, answer{body: body}), out.Flush())
	}
	return errors.Join(writeEntry(out, body, c.format() == "markdown", true), out.Flush())
}

// stamped is the version of a build that does not see the repository's history, as an image's: the linker sets
// it (-X main.stamped=v1.2.3).
var stamped string

// buildVersion is the module's version, or the commit that a checkout was built from.
func buildVersion() string {
	if stamped != "" {
		return stamped
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
