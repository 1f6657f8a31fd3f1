// Command answered prints how many of the trainings in a folder get an answer from check:
//
//	go run ./reliability/answered [-gpu rtx-4090,h100-sxm5] [-v] FOLDER...
//	go run ./reliability/answered -judge [-v] FOLDER...
//
// With -judge, cases that say what is right (an expected.json in each folder, or a CASES.jsonl with commands) are
// counted by program and kind: right, asked what no file says, refused well, wrong, asked though said, refused badly. A
// job is right where it takes what the expected one takes, within 2 %.
//
// Every batch script below a folder is judged on each card, in the folder's own folder that it is in, where such
// corpora keep one case each. An answer is 0 or 1: it fits, or it does not. A script that starts nothing which a reader
// knows is counted apart. Nothing of the scripts is run.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "answered:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("answered", flag.ContinueOnError)
	cards := flags.String("gpu", "rtx-4090,h100-sxm5", "the cards, with commas between them")
	verbose := flags.Bool("v", false, "print every script, with the reason why it has no answer")
	judging := flags.Bool("judge", false, "judge cases that say what is right, by program")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("name a folder with batch scripts")
	}
	dir, err := os.MkdirTemp("", "answered")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "vramplan")
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/vramplan").CombinedOutput(); err != nil {
		return fmt.Errorf("build vramplan: %w\n%s", err, text)
	}
	if *judging {
		all := judged{}
		note := func(format string, args ...any) {
			if *verbose {
				fmt.Fprintf(out, format, args...)
			}
		}
		for _, folder := range flags.Args() {
			if err := judgeFolder(ctx, program, folder, all, note); err != nil {
				return err
			}
		}
		all.write(out)
		return nil
	}
	for _, folder := range flags.Args() {
		scripts, err := scriptsIn(folder)
		if err != nil {
			return err
		}
		for _, card := range strings.Split(*cards, ",") {
			c := counts{}
			for _, s := range scripts {
				a, err := judge(ctx, program, s, card)
				if err != nil {
					return err
				}
				c.add(a)
				if *verbose {
					fmt.Fprintf(out, "%s\t%d\t%s\n", s.name, a.code, a.reason)
				}
			}
			fmt.Fprintf(out, "%s on %s: %s\n", folder, card, c)
		}
	}
	return nil
}

// script is one, with the directory in which it is started.
type script struct{ name, dir string }

// scriptsIn are the batch scripts below a folder.
func scriptsIn(folder string) ([]script, error) {
	var all []script
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !slices.Contains([]string{".sh", ".slurm", ".sbatch", ".bash", ".job", ".pbs", ".lsf", ".sub"},
			filepath.Ext(name)) {
			return nil
		}
		rest, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		dir := folder
		if first, _, deeper := strings.Cut(filepath.ToSlash(rest), "/"); deeper {
			dir = filepath.Join(folder, first)
		}
		all = append(all, script{name, dir})
		return nil
	})
	return all, err
}

// answer is what check says.
type answer struct {
	code   int
	reason string
}

// noJob begins what check says of a script that starts nothing which a reader knows.
const noJob = "no job found"

func judge(ctx context.Context, program string, s script, card string) (answer, error) {
	cmd := exec.CommandContext(ctx, program, "check", "--script", s.name, "--chdir", s.dir, "--gpu", card,
		"--advice-timeout", "1ns")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return answer{}, fmt.Errorf("check %s: %w", s.name, err)
	}
	reason, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
	return answer{code: cmd.ProcessState.ExitCode(), reason: strings.TrimPrefix(reason, "vramplan check: ")}, nil
}

// counts are scripts by how check ended.
type counts struct{ fit, denied, open, bad, none int }

func (c *counts) add(a answer) {
	switch {
	case a.code == 0:
		c.fit++
	case a.code == 1:
		c.denied++
	case strings.HasPrefix(a.reason, noJob):
		c.none++
	case a.code == 3:
		c.open++
	default:
		c.bad++
	}
}

func (c counts) String() string {
	trainings := c.fit + c.denied + c.open + c.bad
	share := 0.0
	if trainings > 0 {
		share = 100 * float64(c.fit+c.denied) / float64(trainings)
	}
	return fmt.Sprintf("%d of %d trainings get an answer (%.0f %%): %d fit, %d do not, %d are open, %d are bad input; "+
		"%d scripts start nothing that is known", c.fit+c.denied, trainings, share, c.fit, c.denied, c.open, c.bad, c.none)
}
