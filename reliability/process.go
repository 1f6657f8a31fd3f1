package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a server under test.
type process struct {
	cmd *exec.Cmd
	// url is where it listens, admin where it has its metrics.
	url, admin string
	dir        string
	logged     sync.WaitGroup
}

// startVramplan starts the program as an operator would, with a database of its own.
func startVramplan(ctx context.Context, program string, settings ...string) (*process, error) {
	dir, err := os.MkdirTemp("", "vramplan-reliability-")
	if err != nil {
		return nil, err
	}
	if program == "" {
		program = filepath.Join(dir, "vramplan")
		if err := buildVramplan(ctx, program); err != nil {
			return nil, err
		}
	}
	p := &process{cmd: exec.Command(program, "serve"), dir: dir}
	p.cmd.Env = append(os.Environ(), "VRAMPLAN_LISTEN=127.0.0.1:0", "VRAMPLAN_ADMIN_LISTEN=127.0.0.1:0",
		"VRAMPLAN_DATABASE=file:"+filepath.Join(dir, "vramplan.db"))
	p.cmd.Env = append(p.cmd.Env, settings...)
	return p, p.start()
}

// buildVramplan makes the program out of the sources.
func buildVramplan(ctx context.Context, program string) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/vramplan/vramplan/cmd/vramplan")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build vramplan: %w: %s", err, out)
	}
	return nil
}

// startBare starts what vramplan is measured against.
func startBare() (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, "bare")}
	return p, p.start()
}

// start waits for the line of the log that says where the process listens. The
// rest of the log is read as it comes, as it is in production, and thrown away.
func (p *process) start() error {
	log, err := p.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("%s did not start: %w: %s", p.cmd.Path, err, line)
		}
		var said struct{ URL, Admin, Message string }
		if json.Unmarshal(line, &said) == nil && said.Message == "ready" {
			p.url, p.admin = said.URL, said.Admin
			break
		}
	}
	p.logged.Go(func() { _, _ = io.Copy(io.Discard, lines) })
	return nil
}

// stop ends the process and says whether it ended well.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(30*time.Second, func() { _ = p.cmd.Process.Kill() })
	p.logged.Wait()
	err := p.cmd.Wait()
	late.Stop()
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
	return err
}

// resident is the memory that the process has now, in bytes.
func (p *process) resident() int64 { return p.status("VmRSS:") }

// worked is the processor time that the process had so far; 0 where that is not to be read. /proc/PID/stat counts it in
// hundredths of a second on every architecture of Linux (man 5 proc).
func (p *process) worked() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // behind the name of the program
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// status is a figure of /proc/PID/status; 0 where there is no such thing.
func (p *process) status(name string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// peakResident watches the memory until done is closed and returns the most.
func (p *process) peakResident(done <-chan struct{}) int64 {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	most := p.resident()
	for {
		select {
		case <-done:
			return most
		case <-ticker.C:
			most = max(most, p.resident())
		}
	}
}
