// Package pgtest runs a PostgreSQL server for tests: Debian's, on a unix socket in
// a temporary folder, as a user who is not root. Each test gets a database of its own.
//
// Where PostgreSQL is not installed, tests that need it skip, unless the variable
// VRAMPLAN_TEST_POSTGRES is "required".
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Required is the variable that makes PostgreSQL's absence a failure.
const Required = "VRAMPLAN_TEST_POSTGRES"

// Server is a PostgreSQL server.
type Server struct {
	programs string
	settings []string
	folder   string
	owner    *syscall.Credential // nil: whoever runs the tests
	log      string

	mu        sync.Mutex
	process   *exec.Cmd
	exited    chan struct{}
	databases int
}

// Run runs the tests of a package with a server that is started when the first of
// them needs it, and stopped after the last. Its result is for os.Exit.
func Run(m *testing.M) int {
	defer stopShared()
	return m.Run()
}

// RunRecording is Run, and at the end hands over what clients of a name sent to the server, in
// their order, as the server says. Without a server that is nothing.
func RunRecording(m *testing.M, client string, done func(statements []string) error) int {
	defer stopShared()
	shared.settings = []string{"-c", "log_statement=all", "-c", "log_parameter_max_length=0", "-c",
		"log_line_prefix=%a "}
	code := m.Run()
	if shared.server == nil {
		return code
	}
	shared.server.Stop()
	log, err := os.ReadFile(shared.server.log)
	if err == nil {
		err = done(statements(string(log), client))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// statements finds what a client sent in a server's log, where each line of an entry but the first begins with a tab.
func statements(log, client string) (list []string) {
	for entry := range strings.SplitSeq(strings.ReplaceAll(log, "\n\t", "\x00"), "\n") {
		kind, text, found := strings.Cut(strings.TrimPrefix(entry, client+" LOG:  "), ": ")
		if found && kind != entry && (kind == "statement" || strings.HasPrefix(kind, "execute ")) {
			list = append(list, strings.TrimSpace(strings.ReplaceAll(text, "\x00", "\n")))
		}
	}
	return list
}

// shared is the server that the tests of one package have together.
var shared struct {
	sync.Mutex
	server   *Server
	settings []string
	err      error
}

// Database makes an empty database on the package's server, and returns its name
// as a store takes it.
func Database(t testing.TB) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = start(shared.settings...)
	}
	skipOrFail(t, shared.err)
	return shared.server.Database(t)
}

// Own starts a server with arguments for one test, which may stop it and start it again.
func Own(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := start(settings...)
	skipOrFail(t, err)
	t.Cleanup(s.remove)
	return s
}

func skipOrFail(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, exec.ErrNotFound) && os.Getenv(Required) != "required":
		t.Skipf("PostgreSQL is not installed (Debian's package is postgresql): %v", err)
	default:
		t.Fatal(err)
	}
}

func stopShared() {
	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		shared.server.remove()
		shared.server, shared.err = nil, errors.New("the tests are over")
	}
}

// start makes a new cluster and runs it with settings.
func start(settings ...string) (*Server, error) {
	programs, err := programs()
	if err != nil {
		return nil, err
	}
	s := &Server{programs: programs, settings: settings}
	if s.folder, err = os.MkdirTemp("", "pg"); err != nil { // short: a socket's path has 107 bytes
		return nil, err
	}
	s.log = filepath.Join(s.folder, "log")
	if err := s.initialise(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.folder))
	}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.folder))
	}
	return s, nil
}

func (s *Server) initialise() error {
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root
		owner, err := unprivileged()
		if err != nil {
			return err
		}
		s.owner = owner
		if err := os.Chown(s.folder, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	initdb := s.command("initdb", "-D", s.data(), "-U", "test", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// Start runs the server, after Stop too, and waits until it answers.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	arguments := append([]string{"-D", s.data(), "-k", s.folder, "-c", "listen_addresses=", "-c",
		"max_connections=200"}, s.settings...)
	server := s.command("postgres", arguments...)
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() { _ = server.Wait(); close(exited) }()
	s.process, s.exited = server, exited
	for deadline := time.Now().Add(60 * time.Second); ; {
		conn, err := pgx.Connect(context.Background(), s.name("postgres"))
		if err == nil {
			return conn.Close(context.Background())
		}
		select {
		case <-exited:
			return fmt.Errorf("postgres ended: %s", s.lastWords())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			_ = server.Process.Kill()
			return fmt.Errorf("postgres does not answer: %w: %s", err, s.lastWords())
		}
	}
}

// Stop ends the server at once, as a crash of its machine would: connections
// break, and the next start recovers from the log.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(syscall.SIGQUIT) // "immediate shutdown"
	select {
	case <-s.exited:
	case <-time.After(30 * time.Second):
		_ = s.process.Process.Kill()
		<-s.exited
	}
	s.process = nil
}

// Database makes an empty database.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	return s.create(t, "")
}

func (s *Server) create(t testing.TB, how string) string {
	t.Helper()
	s.mu.Lock()
	s.databases++
	name := "test" + strconv.Itoa(s.databases)
	s.mu.Unlock()
	conn, err := pgx.Connect(context.Background(), s.name("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(context.Background(), "CREATE DATABASE "+name+how); err != nil {
		t.Fatal(err)
	}
	return s.name(name)
}

// Copy makes a database that is as another is, which nobody may have open.
func Copy(t testing.TB, of string) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	return shared.server.Copy(t, of)
}

// Copy makes a database that is as another is, which nobody may have open.
func (s *Server) Copy(t testing.TB, of string) string {
	t.Helper()
	original, err := pgx.ParseConfig(of)
	if err != nil {
		t.Fatal(err)
	}
	return s.create(t, " TEMPLATE "+original.Database)
}

// File is the file of a table or an index.
func (s *Server) File(name, relation string) (string, error) {
	conn, err := pgx.Connect(context.Background(), name)
	if err != nil {
		return "", err
	}
	var path string
	err = conn.QueryRow(context.Background(), "SELECT pg_relation_filepath($1::text::regclass)", relation).Scan(&path)
	return filepath.Join(s.data(), path), errors.Join(err, conn.Close(context.Background()))
}

func (s *Server) name(database string) string {
	return "postgres://test@/" + database + "?host=" + url.QueryEscape(s.folder)
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) remove() {
	s.Stop()
	_ = os.RemoveAll(s.folder)
}

func (s *Server) command(program string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.programs, program), args...)
	c.Dir = s.folder
	// Its own process group: an interrupt in a terminal is for the tests alone.
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Setpgid: true}
	return c
}

func (s *Server) lastWords() string {
	log, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	const enough = 2000
	return string(bytes.TrimSpace(log[max(0, len(log)-enough):]))
}

// programs is the folder of initdb and postgres. Debian keeps them out of the PATH, a
// folder for each release; the newest is taken.
func programs() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("initdb: %w", exec.ErrNotFound)
	}
	release := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4])
		return n
	}
	slices.SortFunc(found, func(a, b string) int { return release(a) - release(b) })
	return filepath.Dir(found[len(found)-1]), nil
}

// unprivileged is the user that PostgreSQL runs as where the tests run as root.
func unprivileged() (*syscall.Credential, error) {
	var err error
	for _, name := range []string{"postgres", "nobody"} {
		var u *user.User
		if u, err = user.Lookup(name); err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err = errors.Join(uidErr, gidErr); err == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("nobody to run PostgreSQL as: %w", err)
}
