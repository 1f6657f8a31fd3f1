package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/store"
	"github.com/vramplan/vramplan/service/store/pgtest"
)

// process is a running vramplan serve.
type process struct {
	url string
	cmd *exec.Cmd
	// log is what it wrote, complete once it has ended.
	log  func() string
	done chan error
}

// startService runs vramplan serve on a database and waits until it is ready.
func startService(t testing.TB, database, folder string, args ...string) *process {
	t.Helper()
	p, err := tryService(exec.Command("vramplan",
		append([]string{"serve", "--database", database, "--listen", "127.0.0.1:0", "--drain", "0s", "--refresh",
			"100ms"}, args...)...), folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// tryService starts a command that is to become a service; its error has the log.
func tryService(cmd *exec.Cmd, folder string) (*process, error) {
	cmd.Dir = folder
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var log bytes.Buffer
	p := &process{cmd: cmd, done: make(chan error, 1), log: func() string {
		mu.Lock()
		defer mu.Unlock()
		return log.String()
	}}
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			var line struct{ Message, URL string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "request" {
				continue // there are thousands
			}
			mu.Lock()
			fmt.Fprintln(&log, lines.Text())
			mu.Unlock()
			if line.Message == "ready" {
				ready <- line.URL
			}
		}
		p.done <- cmd.Wait()
		close(ready)
	}()
	select {
	case url, ok := <-ready:
		if !ok {
			return nil, fmt.Errorf("the service ended: %s", p.log())
		}
		p.url = url
		return p, nil
	case <-time.After(60 * time.Second):
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("the service is not ready: %s", p.log())
	}
}

// kill ends the process as a crash would, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	err := <-p.done
	p.done <- err // for the next call
}

// answer is what came back for a request; err where nothing did.
type reply struct {
	status int
	body   []byte
	header http.Header
	err    error
}

// client keeps connections, and gives up on a service that does not answer.
func newClient() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
}

// ask sends one request with headers "Name: value".
func ask(c *http.Client, method, url, body string, headers ...string) reply {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := c.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, b, res.Header, err}
}

// newKey makes an API key in a database, and its tables where they are missing.
func newKey(t testing.TB, database string) string {
	t.Helper()
	db, err := store.Open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, token, err := service.New(service.EmbeddedCatalog(), service.WithStore(db)).Keyring().Create(t.Context(),
		"crash test",
		service.Scopes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// databases are those that what must hold for every store is tried on.
var databases = map[string]func(testing.TB) string{
	"sqlite":   func(t testing.TB) string { return "file:" + t.TempDir() + "/vramplan.db" },
	"postgres": func(t testing.TB) string { return pgtest.Database(t) },
}

// settle waits until a PostgreSQL server has noticed that its clients are gone. Until then it may
// still make a change that was asked for and not answered.
func settle(t testing.TB, database string) {
	t.Helper()
	if !strings.HasPrefix(database, "postgres:") {
		return
	}
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	eventually(t, "the server's work for clients that are gone", func() (string, bool) {
		var n int
		err := conn.QueryRow(t.Context(),
			`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'vramplan'`).Scan(&n)
		return fmt.Sprint(n, " connections ", err), err == nil && n == 0
	})
}
