package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// orders are what attackers are told: who, whom, and for how long.
type orders struct {
	name, address string
	// capacity is how many plans the service makes in a second, key one that may do all.
	capacity float64
	key      string
	// first is the first of the numbers that make their questions new.
	first  int64
	length time.Duration
}

// attackers are a process of their own: in one with thousands of connections the honest client would wait for the
// attackers' turns within the process, and measure them.
type attackers struct {
	process
	did bytes.Buffer
}

func (o orders) start(ctx context.Context) (*attackers, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &attackers{process: process{cmd: exec.CommandContext(ctx, self, "attack", "-name", o.name, "-address",
		o.address, "-capacity", fmt.Sprint(o.capacity), "-first", fmt.Sprint(o.first), "-duration",
		o.length.String())}}
	a.cmd.Env = append(os.Environ(), attackersKey+"="+o.key)
	a.cmd.Stdout, a.cmd.Stderr = &a.did, os.Stderr
	return a, a.cmd.Start()
}

// stop tells them to end, and says what they did.
func (a *attackers) stop() (did string, err error) {
	_ = a.cmd.Process.Signal(syscall.SIGINT)
	if err := a.cmd.Wait(); err != nil {
		return "", fmt.Errorf("attackers: %w", err)
	}
	return strings.TrimSpace(a.did.String()), nil
}

const attackersKey = "VRAMPLAN_SIEGE_KEY"

// attackAlone is the other half of siege.
func attackAlone(ctx context.Context, out io.Writer, args []string) error {
	o := orders{key: os.Getenv(attackersKey)}
	flags := flag.NewFlagSet("attack", flag.ContinueOnError)
	flags.StringVar(&o.name, "name", "", "which")
	flags.StringVar(&o.address, "address", "", "of the service")
	flags.Float64Var(&o.capacity, "capacity", 0, "plans that it makes in a second")
	flags.Int64Var(&o.first, "first", 0, "number to begin with")
	flags.DurationVar(&o.length, "duration", 0, "how long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	unique.Store(o.first)
	ctx, cancel := context.WithTimeout(ctx, o.length)
	defer cancel()
	for _, a := range attacks(o.capacity, o.key) {
		if a.name == o.name {
			did, err := a.do(ctx, o.address)
			fmt.Fprintln(out, did)
			return err
		}
	}
	return fmt.Errorf("no attack is called %q", o.name)
}
