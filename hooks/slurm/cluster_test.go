package slurm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mustRun is the variable that makes a missing Slurm a failure: .ci/run sets it.
const mustRun = "VRAMPLAN_TEST_SLURM"

// cluster is a Slurm of one node on loopback, with its own munge, both ended with the test.
type cluster struct {
	dir      string
	vramplan string
	// direct is the configuration of a client that has no cli_filter.
	direct string
}

// start starts a Slurm with both plugins, or skips the test where it cannot.
func start(t testing.TB) *cluster {
	t.Helper()
	if why := missing(); why != "" {
		if os.Getenv(mustRun) != "" {
			t.Fatalf("%s is set, but %s", mustRun, why)
		}
		t.Skipf("%s; on Debian, as root: apt-get install slurm-wlm slurm-wlm-basic-plugins munge", why)
	}
	c := &cluster{dir: t.TempDir()}
	c.vramplan = filepath.Join(c.dir, "vramplan")
	if out, err := exec.Command("go", "build", "-o", c.vramplan,
		"github.com/vramplan/vramplan/cmd/vramplan").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	c.write(t)
	t.Cleanup(func() { c.showLogs(t) })
	c.daemon(t, "munged", "--foreground", "--force", "--key-file="+c.path("munge/key"), "--socket="+
		c.path("munge/socket"),
		"--pid-file="+c.path("munge/pid"), "--log-file="+c.path("munge/log"), "--seed-file="+c.path("munge/seed"))
	c.wait(t, "munged", func() bool { _, err := os.Stat(c.path("munge/socket")); return err == nil })
	c.daemon(t, "slurmctld", "-c", "-D")
	c.daemon(t, "slurmd", "-D", "-N", host(t))
	c.wait(t, "the node", func() bool {
		out, err := c.run("", "sinfo", "-h", "-p", "gpu", "-o", "%T")
		return err == nil && strings.Contains(out, "idle")
	})
	t.Cleanup(func() { // before the daemons end: a step whose controller is gone would hold slurmd up
		_, _ = c.run("", "scancel", "--user=root")
		c.wait(t, "the queue to empty", func() bool {
			out, err := c.run("", "squeue", "-h")
			return err == nil && out == ""
		})
	})
	return c
}

func missing() string {
	if os.Geteuid() != 0 {
		return "the tests with Slurm need root"
	}
	for _, program := range []string{"slurmctld", "slurmd", "sbatch", "munged"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is not installed"
		}
	}
	return ""
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

// write puts the configuration into the directory.
func (c *cluster) write(t testing.TB) {
	for dir := c.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		check(t, os.Chmod(dir, 0o755)) // munged refuses directories that others may write to
	}
	for _, name := range []string{"state", "spool", "munge", "direct"} {
		check(t, os.Mkdir(c.path(name), 0o755))
	}
	check(t, os.WriteFile(c.path("munge/key"), bytes.Repeat([]byte("key "), 256), 0o400))
	ports := freePorts(t)
	conf := strings.NewReplacer("@DIR@", c.dir, "@HOST@", host(t), "@CONTROLLER_PORT@", ports[0], "@NODE_PORT@", ports[1])
	for _, name := range []string{"slurm.conf", "gres.conf"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		check(t, err)
		put(t, c.path(name), conf.Replace(string(text)))
	}
	text, err := os.ReadFile(c.path("slurm.conf"))
	check(t, err)
	c.direct = c.path("direct/slurm.conf")
	put(t, c.direct, string(text))
	put(t, c.path("slurm.conf"), string(text)+"JobSubmitPlugins=lua\nCliFilterPlugins=lua\n")
	for _, name := range []string{"cli_filter.lua", "job_submit.lua"} {
		text, err := os.ReadFile(name)
		check(t, err)
		put(t, c.path(name), string(text))
	}
	c.settings(t, "")
}

// settings writes vramplan_hook.lua: the defaults of these tests, and what a test gives on top.
func (c *cluster) settings(t testing.TB, more string) {
	put(t, c.path("vramplan_hook.lua"), fmt.Sprintf("local s = { command = %q, timeout_seconds = 10, decisions = %q, "+
		"default_partition = 'gpu', exempt_users = {} }\n%s\nreturn s\n",
		c.vramplan, c.path("decisions.ndjson"), more))
}

// reload makes slurmctld read its plugin and the settings again, which it does when the
// plugin's time of change, in seconds, is later than it was.
func (c *cluster) reload(t testing.TB) {
	info, err := os.Stat(c.path("job_submit.lua"))
	check(t, err)
	later := info.ModTime().Add(2 * time.Second)
	if soon := time.Now().Add(10 * time.Second); later.Before(soon) {
		later = soon
	}
	check(t, os.Chtimes(c.path("job_submit.lua"), later, later))
}

func (c *cluster) daemon(t testing.TB, name string, args ...string) {
	command := exec.Command(name, args...)
	command.Env = append(os.Environ(), "SLURM_CONF="+c.path("slurm.conf"))
	out, err := os.Create(c.path(name + ".out"))
	check(t, err)
	command.Stdout, command.Stderr = out, out
	check(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(10*time.Second, func() { _ = command.Process.Kill() })
		_ = command.Wait()
		kill.Stop()
		_ = out.Close()
	})
}

// run runs one of Slurm's commands with the environment of a user who set env on top.
func (c *cluster) run(env string, name string, args ...string) (string, error) {
	return c.runWith(c.path("slurm.conf"), env, name, args...)
}

func (c *cluster) runWith(conf, env, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = c.dir
	command.Env = append(os.Environ(), "SLURM_CONF="+conf)
	if env != "" {
		command.Env = append(command.Env, env)
	}
	command.WaitDelay = time.Second
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	return strings.TrimSpace(out.String()), err
}

// submit hands a job in and returns what the user sees, and whether it was accepted.
func (c *cluster) submit(t testing.TB, conf, env string, args ...string) (out string, accepted bool) {
	t.Helper()
	out, err := c.runWith(conf, env, "sbatch", args...)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("sbatch: %v", err)
	}
	if accepted = strings.Contains(out, "Submitted batch job"); accepted == (err != nil) {
		t.Fatalf("sbatch says %q and ends with %v", out, err)
	}
	return out, accepted
}

func (c *cluster) wait(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// showLogs helps where a daemon failed.
func (c *cluster) showLogs(t testing.TB) {
	if !t.Failed() {
		return
	}
	for _, name := range []string{"munged.out", "munge/log", "slurmctld.out", "slurmctld.log", "slurmd.out",
		"slurmd.log"} {
		text, _ := os.ReadFile(c.path(name))
		t.Logf("%s ends with\n%s", name, text[max(0, len(text)-2000):])
	}
}

func host(t testing.TB) string {
	name, err := os.Hostname()
	check(t, err)
	short, _, _ := strings.Cut(name, ".")
	return short
}

// freePorts are two ports that nobody listens on: both are held until both are known, or they might be the same.
func freePorts(t testing.TB) (ports [2]string) {
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		defer func() { check(t, l.Close()) }()
		_, ports[i], err = net.SplitHostPort(l.Addr().String())
		check(t, err)
	}
	return ports
}

func put(t testing.TB, name, text string) {
	t.Helper()
	check(t, os.WriteFile(name, []byte(text), 0o755))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// silent is a server that takes connections and never answers.
func silent(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	return "http://" + l.Addr().String()
}
