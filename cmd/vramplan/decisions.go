package main

import (
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/service/decision"
)

// decisionFlags say who decides, and where that is written down.
type decisionFlags struct {
	Mode         string `enum:",audit,warn,enforce" default:"" setting:"VRAMPLAN_MODE" placeholder:"MODE" help:"What the caller does with the answer: audit, warn or enforce. It is recorded; the exit code does not depend on it."`
	Override     string `setting:"VRAMPLAN_OVERRIDE" placeholder:"REASON" help:"Exit with 0 although the job does not fit, and record why."`
	Hook         string `hidden:"" default:"check" help:"The hook that calls, for the record."`
	OverrideHelp string `hidden:"" help:"How the caller's users give a reason, for the message."`
	Decisions    string `setting:"VRAMPLAN_DECISIONS" placeholder:"FILE" help:"Append every decision to this file as a line of JSON; syslog sends it there."`
}

func (f *decisionFlags) overrideHint() string {
	if f.OverrideHelp != "" {
		return screen.Plain(f.OverrideHelp)
	}
	return "give a reason with --override REASON or VRAMPLAN_OVERRIDE"
}

// record writes one decision down. That it cannot is no reason to decide otherwise: a line
// on standard error says it.
func (c *checkCommand) record(t *terminal, j judgement, from origin) {
	r := c.newRecord(from)
	r.Action, r.Override = actionOf(j.code, decision.Mode(c.Mode)), j.override
	r.SetJob(j.doc.text)
	if j.err != nil {
		r.Verdict, r.Reason = decision.NoVerdict, j.err.Error()
	} else {
		r.SetResult(j.result, j.best)
	}
	c.write(t, &r)
}

// recordFailure writes down that no job could be read.
func (c *checkCommand) recordFailure(t *terminal, from origin, err error) {
	r := c.newRecord(from)
	r.Action, r.Verdict, r.Reason = "allow", decision.NoVerdict, err.Error()
	c.write(t, &r)
}

func (c *checkCommand) newRecord(from origin) decision.Record {
	r := decision.Record{Hook: c.Hook, Mode: decision.Mode(c.Mode), Source: from.source, Workload: c.Script}
	if c.Decisions != "" {
		r.ID, r.Time = decision.NewID(), time.Now().UTC()
		r.User = strconv.Itoa(os.Getuid())
		if u, err := user.Current(); err == nil {
			r.User = u.Username
		}
	}
	return r
}

// actionOf is what the caller does: a job is refused on exactly 1, where that is enforced.
func actionOf(code int, mode decision.Mode) string {
	switch {
	case code == exitFailure && (mode == decision.Enforce || mode == ""):
		return "deny"
	case code == exitFailure && mode == decision.Warn:
		return "warn"
	}
	return "allow"
}

func (c *checkCommand) write(t *terminal, r *decision.Record) {
	if c.Decisions == "" {
		return
	}
	line, err := r.Line()
	if err == nil && c.Decisions == "syslog" {
		err = toSyslog(r, line)
	} else if err == nil {
		err = appendTo(c.Decisions, line)
	}
	if err != nil {
		fmt.Fprintf(t.stderr, "vramplan check: the decision was not recorded: %v\n", err)
	}
}

// appendTo adds a line to a file in one write, so that lines of several processes do not mix. A
// pipe without a reader is an error and not a reason to wait.
func appendTo(name string, line []byte) error {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.Write(line); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// The socket of the system's log, and what fits into one of its messages; a longer one loses the
// job document and keeps its digest.
const (
	syslogSocket   = "/dev/log"
	maxSyslogBytes = 8000
)

func toSyslog(r *decision.Record, line []byte) error {
	if len(line) > maxSyslogBytes {
		short := *r
		short.Job = nil
		var err error
		if line, err = short.Line(); err != nil {
			return err
		}
	}
	conn, err := net.DialTimeout("unixgram", syslogSocket, 50*time.Millisecond)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		return err
	}
	const userInfo = 1<<3 | 6 // facility user, severity informational
	_, err = fmt.Fprintf(conn, "<%d>vramplan[%d]: %s", userInfo, os.Getpid(), line)
	return err
}
