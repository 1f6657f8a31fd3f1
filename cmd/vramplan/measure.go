package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vramplan/vramplan/cmd/vramplan/localcards"
	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/readers"
)

// Exit codes of a command that was not run, as shells have them (POSIX, 2.8.2).
const (
	exitNotRun   = 126
	exitNotFound = 127
	exitSignal   = 128 // and the signal's number
)

// measureCommand runs a training and says what it took beside what was predicted.
type measureCommand struct {
	readFlags   `embed:""`
	answerFlags `embed:"" group:"Answers:"`
	Every       time.Duration `default:"500ms" help:"How often nvidia-smi is asked."`
	Command     []string      `arg:"" name:"command" help:"The command line that starts the training, behind --."`
}

// Run estimates, runs and compares. Everything that it says itself is on standard error, and the exit code is the
// command's.
func (c *measureCommand) Run(ctx context.Context, t *terminal) error {
	if c.Every < 50*time.Millisecond {
		return usage("--every %s: give 50ms or more", c.Every)
	}
	say := func(text string) { screen.WriteWrapped(t.stderr, "measure: ", screen.Plain(text), false) }
	predicted, err := c.predict(ctx, t)
	if err != nil {
		say("nothing is predicted: " + err.Error())
	} else {
		p := predicted.Peak
		say(fmt.Sprintf("predicted: %s on the card, between %s and %s; PyTorch reserves %s", screen.Size(p.DeviceBytes),
			screen.Size(p.LowBytes), screen.Size(p.HighBytes), screen.Size(p.ReservedBytes)))
	}
	process := exec.Command(c.Command[0], c.Command[1:]...)
	process.Stdin, process.Stdout, process.Stderr = t.stdin, t.stdout, t.stderr
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := process.Start(); err != nil {
		code := exitNotRun
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			code = exitNotFound
		}
		return &exitError{code, err}
	}
	// The command outlives the signal that ends this program's context.
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	seen := make(chan sampled, 1)
	go func() { seen <- sample(watching, process.Process.Pid, c.Every) }()
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	for {
		select {
		case s := <-signals:
			// A terminal sends an interrupt to the command by itself.
			if s != os.Interrupt || !isTerminal(t.stdin) {
				_ = process.Process.Signal(s)
			}
		case err := <-ended:
			stop()
			say((<-seen).beside(predicted))
			return exitOf(err)
		}
	}
}

// predict estimates the one job that the command starts.
func (c *measureCommand) predict(ctx context.Context, t *terminal) (*estimator.Result, error) {
	from := fromFlags{readFlags: c.readFlags}
	source, err := from.source(ctx, t, nil, c.Command)
	if err != nil {
		return nil, err
	}
	read, err := readers.Read(ctx, source)
	if err != nil {
		return nil, err
	}
	lines, err := from.lines(t, read)
	if err != nil {
		return nil, err
	}
	if len(read.Jobs) != 1 {
		return nil, fmt.Errorf("the command starts %d trainings, and one is measured", len(read.Jobs))
	}
	backend, path, err := c.asker(t, "/v1/estimate")
	if err != nil {
		return nil, err
	}
	doc := document{line: 1, text: lines}
	body, err := backend.post(ctx, path, doc)
	return parse[estimator.Result](answer{doc: doc, body: body, err: err})
}

// exitOf is the exit code of a command that ended.
func exitOf(err error) error {
	failed, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	if status, ok := failed.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exit(exitSignal + int(status.Signal()))
	}
	return exit(failed.ExitCode())
}

// sampled is what nvidia-smi said of a command's processes.
type sampled struct {
	most    int64 // of one process on one card
	samples int
	others  bool // that there were processes, of others
	err     error
}

// sample asks until ctx ends.
func sample(ctx context.Context, pid int, every time.Duration) (s sampled) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		text, err := localcards.Smi(ctx, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
		switch {
		case err != nil && ctx.Err() != nil:
			return s
		case err != nil:
			s.err = err
			return s
		}
		own := descendants(pid)
		for line := range strings.Lines(text) {
			process, memory, _ := strings.Cut(strings.TrimSpace(line), ",")
			id, errID := strconv.Atoi(strings.TrimSpace(process))
			used, errUsed := strconv.ParseInt(strings.TrimSpace(memory), 10, 64)
			switch {
			case errID != nil || errUsed != nil || used < 0 || used > 1<<30: // [N/A] on cards that share their memory
			case own[id]:
				s.most = max(s.most, used<<20)
				s.samples++
			default:
				s.others = true
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s
		}
	}
}

// beside puts what was measured beside what was predicted.
func (s sampled) beside(predicted *estimator.Result) string {
	switch {
	case s.err != nil:
		return "nothing is measured: " + s.err.Error()
	case s.samples == 0 && s.others:
		return "nothing is measured: nvidia-smi shows processes, and none of the command's; in a container it has the " +
			"numbers of the host"
	case s.samples == 0:
		return "nothing is measured: nvidia-smi never showed a process of the command on a GPU"
	}
	text := fmt.Sprintf("measured: %s on the card at most, by nvidia-smi in %s samples", screen.Size(s.most),
		screen.Thousands(int64(s.samples)))
	if predicted == nil {
		return text
	}
	p := predicted.Peak
	where := "within what was predicted"
	switch {
	case s.most < p.LowBytes:
		where = "below what was predicted"
	case s.most > p.HighBytes:
		where = "above what was predicted"
	}
	return fmt.Sprintf("%s: %+.1f %% of the predicted %s, %s (%s to %s)", text,
		100*(float64(s.most)/float64(p.DeviceBytes)-1), screen.Size(p.DeviceBytes), where, screen.Size(p.LowBytes),
		screen.Size(p.HighBytes))
}

// descendants are a process and those that it started, directly or not, where /proc tells; else the process alone.
func descendants(pid int) map[int]bool {
	parents := map[int]int{}
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range entries {
		file, err := os.Open(name)
		if err != nil {
			continue // it ended
		}
		line, _ := bufio.NewReader(file).ReadString('\n')
		file.Close()
		// pid (name) state ppid: a name may have blanks and parentheses (proc_pid_stat(5)).
		fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil || len(fields) < 2 {
			continue
		}
		if parents[child], err = strconv.Atoi(fields[1]); err != nil {
			delete(parents, child)
		}
	}
	own := map[int]bool{pid: true}
	for grew := true; grew; {
		grew = false
		for child, parent := range parents {
			if own[parent] && !own[child] {
				own[child], grew = true, true
			}
		}
	}
	return own
}
