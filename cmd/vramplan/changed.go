package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator/compare"
	"github.com/vramplan/vramplan/service/readers"
)

// mostChanged is of how many files a change is told: what tells it is read by people, and a comment on a change has at
// most 65,536 characters (GitHub's body of an issue comment).
const mostChanged = 20

var errNoTraining = errors.New("no training is described here")

// changedCommand says of a change under git what it does to the memory of the jobs that its files describe.
type changedCommand struct {
	Base   string   `default:"HEAD" placeholder:"REV" help:"What the files are compared with: where the history of this revision and of HEAD parted. HEAD, if not given, is what is not committed yet." group:"Files of other tools:"`
	Files  []string `arg:"" optional:"" name:"file" help:"Batch scripts and configurations; every file that changed, if none is given."`
	GPU    []string `placeholder:"NAME" sep:"," help:"Card for jobs whose files ask for none; repeat or separate by commas." group:"Job:"`
	Set    []string `sep:"none" placeholder:"FIELD=VALUE" help:"Answer a question of all files, or say any field of the job document; repeat for more." group:"Files of other tools:"`
	Ignore []string `sep:"none" placeholder:"WORD" help:"A word of the files that changes nothing in memory; repeat for more." group:"Files of other tools:"`
	Output string   `short:"o" enum:"table,markdown" default:"table" setting:"VRAMPLAN_OUTPUT" help:"table or markdown." group:"Answers:"`
}

// Run prints, of each file, whether its job fits now and what the change does to its bytes. The exit code is 1 where a
// job does not fit, as check says it; what cannot be judged holds up nobody.
func (c *changedCommand) Run(ctx context.Context, t *terminal) error {
	base, err := git(ctx, "merge-base", c.Base, "HEAD")
	if err != nil {
		return fmt.Errorf("%w; --base names a revision that this clone has (a shallow one has few: fetch its history)", err)
	}
	root, err := git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	files, err := c.changed(ctx, base)
	if err != nil {
		return err
	}
	before, remove, err := checkOut(ctx, base)
	if err != nil {
		return err
	}
	defer remove()
	code, told := exitOK, 0
	var silent []string
	for _, file := range files {
		if told == mostChanged {
			silent = append(silent, file)
			continue
		}
		text, verdict := c.tell(ctx, t, file, root, before)
		if text == "" {
			silent = append(silent, file)
			continue
		}
		told++
		code = worse(code, verdict)
		if c.Output == "markdown" {
			fmt.Fprintf(t.stdout, "### %s\n\n%s\n", screen.Plain(file), text)
			continue
		}
		fmt.Fprintf(t.stdout, "%s\n%s\n", screen.Plain(file), text)
	}
	switch {
	case len(files) == 0:
		fmt.Fprintf(t.stdout, "No file changed since %s.\n", c.Base)
	case len(silent) > 0 && told == mostChanged:
		fmt.Fprintf(t.stdout, "The first %d files are told of; not looked at: %s.\n", told,
			screen.Plain(strings.Join(silent, ", ")))
	case told == 0:
		fmt.Fprintln(t.stdout, "No training is described by the files that changed.")
	}
	if code != exitFailure {
		return nil
	}
	return exit(exitFailure)
}

// changed are the files to tell of, below the current directory.
func (c *changedCommand) changed(ctx context.Context, base string) ([]string, error) {
	if len(c.Files) > 0 {
		return c.Files, nil
	}
	list, err := git(ctx, "diff", "--name-only", "--relative", "--no-renames", "--diff-filter=d", "-z", base)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Split(list, "\x00"), func(name string) bool { return name == "" }), nil
}

// tell says what there is to say of a file; nothing where no training is found in it.
func (c *changedCommand) tell(ctx context.Context, t *terminal, file, root, before string) (string, int) {
	is, err := c.jobs(ctx, t, file, "")
	if errors.Is(err, errNoTraining) {
		return "", exitOK
	}
	var out bytes.Buffer
	there := *t
	there.stdout, there.stderr = &out, &out
	code := exitOK
	if err != nil {
		fmt.Fprintln(&out, err) // what is wrong in the file, or not said
	} else {
		check := checkCommand{From: []string{file}, Ignore: c.Ignore, Set: c.Set, AdviceTimeout: 2 * time.Second}
		if !asksForCard(is) {
			check.GPU = c.GPU
		}
		code = report(&out, "check", check.Run(ctx, &there))
	}
	if c.Output == "markdown" {
		text := strings.TrimSpace(out.String())
		out.Reset()
		fmt.Fprintf(&out, "```\n%s\n```\n", text)
	}
	if err != nil {
		return out.String(), code
	}
	was, err := c.jobs(ctx, t, file, inside(root, before))
	if err != nil || len(was) != len(is) {
		fmt.Fprintf(&out, "Nothing is compared: in %s this file describes no job, or others.\n", screen.Plain(c.Base))
		return out.String(), code
	}
	for i := range is {
		if bytes.Equal(was[i], is[i]) {
			fmt.Fprintln(&out, "The job is the same as before.")
		} else if err := c.compare(ctx, &there, was[i], is[i]); err != nil {
			fmt.Fprintln(&out, err)
		}
	}
	return out.String(), code
}

// jobs are the job documents of a file, as estimate --from has them; at is where it lies, the current directory if
// nothing is said. Of a file in which nobody would look for a training the error is errNoTraining.
func (c *changedCommand) jobs(ctx context.Context, t *terminal, file, at string) ([][]byte, error) {
	from := fromFlags{From: []string{filepath.Join(at, file)},
		readFlags: readFlags{At: at, Set: c.Set, Ignore: c.Ignore}}
	quiet := *t
	quiet.stdout, quiet.stderr = io.Discard, io.Discard
	answer, err := from.answer(ctx, &quiet, nil)
	if err != nil {
		return nil, errNoTraining // not there, or no text
	}
	if len(answer.Jobs) == 0 && !slices.ContainsFunc(answer.Refusals, func(r readers.Refusal) bool {
		return r.Code != "unknown-file" && r.Code != "no-job"
	}) {
		return nil, errNoTraining
	}
	lines, err := from.lines(&quiet, answer)
	if err != nil {
		return nil, err
	}
	return bytes.Split(bytes.TrimSpace(lines), []byte("\n")), nil
}

// asksForCard is true where every job names the cards that it may get.
func asksForCard(jobs [][]byte) bool {
	return !slices.ContainsFunc(jobs, func(job []byte) bool { return !gjson.GetBytes(job, "gpus").Exists() })
}

// compare prints why two jobs take different amounts.
func (c *changedCommand) compare(ctx context.Context, t *terminal, was, is []byte) error {
	backend, path, err := (&answerFlags{}).asker(t, "/v1/compare")
	if err != nil {
		return err
	}
	both := document{line: 1, text: slices.Concat([]byte(`{"a":`), was, []byte(`,"b":`), is, []byte("}"))}
	return showOne(ctx, t, backend, path, both, c.Output, func(r *compare.Comparison) error {
		return showComparison(t.stdout, r, screen.Style{Colour: t.colour()}, [2]string{"before", "now"},
			c.Output == "markdown", false)
	})
}

// inside is where the current directory lies in another work tree of the same repository.
func inside(root, other string) string {
	here, err := os.Getwd()
	if err != nil {
		return other
	}
	below, err := filepath.Rel(root, here)
	if err != nil {
		return other
	}
	return filepath.Join(other, below)
}

// checkOut puts the files of a revision into a directory of their own, beside the work tree, which stays as it is.
func checkOut(ctx context.Context, revision string) (dir string, remove func(), err error) {
	above, err := os.MkdirTemp("", "vramplan-changed-")
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(above, "before")
	remove = func() {
		_, _ = git(context.WithoutCancel(ctx), "worktree", "remove", "--force", dir)
		os.RemoveAll(above)
	}
	if _, err := git(ctx, "worktree", "add", "--detach", dir, revision); err != nil {
		remove()
		return "", nil, err
	}
	return dir, remove, nil
}

// git is what git prints, without the newline at its end.
func git(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...)
	var failed strings.Builder
	command.Stderr = &failed
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(failed.String()))
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
