package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// former is a revision that failures are held against, in a work tree of its own.
type former struct{ root, folder, build string }

func checkout(ctx context.Context, root, revision, build string) (*former, error) {
	f := &former{root: root, folder: filepath.Join(build, "base"), build: filepath.Join(build, "built")}
	if err := os.Mkdir(f.build, 0o755); err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, "git", "-C", root, "worktree", "add", "--detach", f.folder, revision)
	if said, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("checking out %s: %w\n%s", revision, err, said)
	}
	return f, nil
}

func (f *former) remove() {
	// Without the caller's context: it goes when that has ended, too.
	_ = exec.Command("git", "-C", f.root, "worktree", "remove", "--force", f.folder).Run()
}

// fails says whether a test fails there with the first seed with which it failed. One that is not there does not.
func (f *former) fails(ctx context.Context, t *tried) (bool, error) {
	same := asked{test: regexp.MustCompile("^" + t.name + "$"), folders: []string{t.folder}}
	there, err := compile(ctx, f.folder, f.build, &same)
	if err != nil || len(there) == 0 {
		return false, err
	}
	err = there[0].once(ctx, t.seeds[0])
	return err != nil, ctx.Err()
}
