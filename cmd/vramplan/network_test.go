package main

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service/store/pgtest"
)

// network is what lies between a service and its database server, and can be harmed.
type network struct {
	net.Listener
	to    string // a unix socket
	state atomic.Int32

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// The states of a network.
const (
	good    int32 = iota
	slow          // every packet takes a while
	silent        // nothing arrives any more, and nobody says so
	oneWay        // requests arrive, answers do not
	cutOff        // connections break, new ones are refused
	flaking       // connections break again and again in the middle of answers
)

var networkStates = map[int32]string{slow: "slow", silent: "silent", oneWay: "one way", cutOff: "cut",
	flaking: "flaking"}

func newNetwork(t *testing.T, to string) *network {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{Listener: l, to: to, conns: map[net.Conn]bool{}}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			done.Go(func() { n.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		n.become(cutOff)
		done.Wait()
	})
	return n
}

// become changes the state; what is under way is broken unless the state says otherwise.
func (n *network) become(state int32) {
	n.state.Store(state)
	if state != cutOff && state != good { // what was silent may be in the middle of a message
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		_ = c.Close()
	}
}

func (n *network) serve(client net.Conn) {
	defer client.Close()
	if n.state.Load() == cutOff {
		return
	}
	server, err := net.Dial("unix", n.to)
	if err != nil {
		return
	}
	defer server.Close()
	n.mu.Lock()
	n.conns[client], n.conns[server] = true, true
	n.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { n.pump(server, client, false) })
	both.Go(func() { n.pump(client, server, true) })
	both.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, client)
	delete(n.conns, server)
}

// pump carries bytes in one direction until either end is closed.
func (n *network) pump(to, from net.Conn, answers bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 16<<10)
	for packets := 1; ; packets++ {
		read, err := from.Read(buffer)
		if err != nil {
			return
		}
		chunk := buffer[:read]
		switch state := n.state.Load(); {
		case state == slow:
			time.Sleep(20 * time.Millisecond)
		case state == silent, state == oneWay && answers:
			continue
		case state == flaking && answers && packets%7 == 0:
			_, _ = to.Write(chunk[:len(chunk)/2])
			return
		}
		if _, err := to.Write(chunk); err != nil {
			return
		}
	}
}

// The network between a service and its PostgreSQL is slowed, cut and silenced under load. No answer fails, what was
// acknowledged is there, nothing is half written, and changes are taken again without help.
func TestBadNetwork(t *testing.T) {
	server := pgtest.Own(t)
	database := server.Database(t)
	key := newKey(t, database)
	socket, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	network := newNetwork(t, filepath.Join(socket.Query().Get("host"), ".s.PGSQL.5432"))
	p := startService(t, fmt.Sprintf("postgres://test@%s%s?sslmode=disable", network.Addr(), socket.Path), t.TempDir())
	client := newClient()
	direct, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close(t.Context())

	var acknowledged atomic.Int64
	writers := make([]*writer, 3)
	for i := range writers {
		writers[i] = &writer{id: fmt.Sprintf("net-%d", i), asked: -1, count: &acknowledged, wrong: t.Errorf,
			outage: true}
	}
	stop, asked := make(chan struct{}), atomic.Int64{}
	var readers sync.WaitGroup
	for i := range 2 {
		readers.Go(func() {
			c := newClient()
			defer c.CloseIdleConnections()
			for n := i; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				r := ask(c, http.MethodPost, p.url+"/v1/estimate",
					fmt.Sprintf(`{"model": {"preset": "gpt2"}, "training": {"micro_batch": %d, "sequence_length": 64}, "gpus": ["rtx-4090"]}`, n%97+1))
				if n%3 == 0 {
					r = ask(c, http.MethodGet, p.url+"/readyz", "")
				}
				if asked.Add(1); r.status != http.StatusOK {
					t.Errorf("an answer failed: %d %s %v", r.status, r.body, r.err)
				}
			}
		})
	}
	for _, state := range []int32{slow, flaking, silent, cutOff, oneWay, slow, flaking} {
		var working sync.WaitGroup
		for _, w := range writers {
			working.Go(func() {
				w.run(client, p.url, key)
			})
		}
		time.Sleep(300 * time.Millisecond)
		network.become(state)
		time.Sleep(time.Second)
		if state == slow { // writers go on for as long as they are served
			network.become(cutOff)
		}
		working.Wait()
		network.become(good)
		eventually(t, "changes are taken after "+networkStates[state], func() (string, bool) {
			var busy, changes int
			err := direct.QueryRow(t.Context(),
				`SELECT (SELECT count(*) FROM pg_stat_activity WHERE application_name = 'vramplan' AND state <> 'idle'), user_changes FROM catalog_state`).Scan(&busy, &changes)
			r := ask(client, http.MethodGet, p.url+"/readyz?for=writes", "")
			return fmt.Sprintf("%d at work, %d changes, %v, %d %s", busy, changes, err, r.status, r.body),
				err == nil && busy == 0 && r.status == http.StatusOK &&
					(changes == 0 || strings.Contains(string(r.body), fmt.Sprintf(`"catalog":"%s.%d-`, migrations.CatalogRevision, changes)))
		})
		for _, w := range writers {
			w.check(client, p.url)
		}
		if t.Failed() {
			break
		}
	}
	close(stop)
	readers.Wait()
	changes := checkHistory(t, client, p.url, key)
	if n := acknowledged.Load(); n == 0 || changes < n {
		t.Errorf("%d changes were acknowledged, the history has %d", n, changes)
	}
	p.kill()
	wholeDatabase(t, database)
	t.Logf("%d answers, %d changes acknowledged, %d stored", asked.Load(), acknowledged.Load(), changes)
}
