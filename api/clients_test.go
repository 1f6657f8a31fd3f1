package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/workplace"
)

// dialFrom connects from an address of this machine; 127.0.0.2 is another client than 127.0.0.1.
func dialFrom(t *testing.T, from, address string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	c, err := d.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// healthy asks on a connection and leaves it open.
func healthy(c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err = io.Copy(io.Discard, res.Body); err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", res.StatusCode)
	}
	return err
}

// closed says whether the server closed a connection.
func closed(c net.Conn, patience time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	_, err := c.Read(make([]byte, 1))
	ne, ok := err.(net.Error)
	return err != nil && !(ok && ne.Timeout())
}

// closedOf counts those of list that the server closes, and waits until there are as many as wanted. Which of several
// connections counts as idle first is up to the scheduler: it is so a moment after its answer was read.
func closedOf(list []net.Conn, wanted int) (gone int) {
	for deadline := time.Now().Add(30 * time.Second); gone < wanted && time.Now().Before(deadline); {
		gone = 0
		for _, c := range list {
			if closed(c, 50*time.Millisecond) {
				gone++
			}
		}
	}
	return gone
}

// Whoever keeps connections open for nothing makes room for those who ask.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	address, admin := start(t,
		newAPI(api.Options{Limits: api.Limits{MaxConnections: 4, MaxConnectionsPerClient: 3, MaxIdlePerClient: 3}}),
		api.Listeners{})
	var greedy []net.Conn
	for range 3 {
		c := dialFrom(t, "127.0.0.2", address)
		if err := healthy(c); err != nil {
			t.Fatal(err)
		}
		greedy = append(greedy, c)
	}
	// Its own fourth takes the place of its first, which waits longest.
	fourth := dialFrom(t, "127.0.0.2", address)
	if err := healthy(fourth); err != nil {
		t.Fatal(err)
	}
	if closedOf(greedy, 1) != 1 {
		t.Error("one client has more connections than it may")
	}
	// The listener is full now, and others are still let in.
	for i := range 3 {
		if err := healthy(dialFrom(t, fmt.Sprintf("127.0.0.%d", 10+i), address)); err != nil {
			t.Errorf("client %d: %v", i, err)
		}
	}
	if closedOf(append(greedy, fourth), 3) != 3 {
		t.Error("connections that waited longest are still open")
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	if _, body := get(t, client, "http://"+admin+"/metrics"); !strings.Contains(body, `vramplan_shed_total{reason="connections"} 3`) {
		t.Error("the metrics do not count three")
	}
}

func TestIdleConnectionsOfOneClientAreBounded(t *testing.T) {
	address, _ := start(t, newAPI(api.Options{Limits: api.Limits{MaxIdlePerClient: 2}}), api.Listeners{})
	var all []net.Conn
	for range 4 {
		c := dialFrom(t, "127.0.0.2", address)
		if err := healthy(c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if gone := closedOf(all, 2); gone != 2 {
		t.Errorf("%d of four idle connections were closed, want two", gone)
	}
}

// A proxy that is trusted brings many clients over its connections.
func TestTrustedProxiesMayHaveAllConnections(t *testing.T) {
	address, _ := start(t, newAPI(api.Options{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
		Limits: api.Limits{MaxConnections: 8, MaxConnectionsPerClient: 1, MaxIdlePerClient: 1}}), api.Listeners{})
	var all []net.Conn
	for range 6 {
		c := dialFrom(t, "127.0.0.2", address)
		if err := healthy(c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for i, c := range all {
		if err := healthy(c); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
}

// One client cannot have all slots, however many others are free.
func TestSlotsOfOneClient(t *testing.T) {
	began, end := make(chan struct{}, 8), make(chan struct{})
	a := askedAPI(api.Options{}, func(ctx context.Context, job estimator.Job) (*estimator.Result, error) {
		began <- struct{}{}
		<-end
		return echo(ctx, job)
	}, workplace.Limits{MaxConcurrent: 3, MaxConcurrentPerClient: 2})
	address, _ := start(t, a, api.Listeners{})
	ask := func(from string) net.Conn {
		c := dialFrom(t, from, address)
		body := job(1)
		fmt.Fprintf(c, "POST /v1/estimate HTTP/1.1\r\nHost: x\r\nContent-Type: "+
			"application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		return c
	}
	var greedy []net.Conn
	for range 4 {
		greedy = append(greedy, ask("127.0.0.2"))
	}
	<-began
	<-began
	honest := ask("127.0.0.3")
	select {
	case <-began: // the third slot is for others
	case <-time.After(20 * time.Second):
		t.Error("another client waits while a slot is free")
	}
	close(end)
	for _, c := range append(greedy, honest) {
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%v, %v", res, err)
		}
	}
}

// Paths and methods that are not there, and admission, count like everything else.
func TestEverythingIsUnderTheLimits(t *testing.T) {
	for _, c := range []struct{ method, path string }{
		{http.MethodGet, "/v1/nothing"}, {http.MethodDelete, "/v1/version"},
		{http.MethodPost, "/v1/admission/kubernetes"},
	} {
		h := newAPI(api.Options{}, workplace.Limits{RatePerSecond: 0.0001})
		for i, want := range []bool{false, true} {
			res := do(h, c.method, c.path, "application/json", `{}`)
			if limited := res.StatusCode == http.StatusTooManyRequests; limited != want {
				t.Errorf("%s %s: request %d has status %d", c.method, c.path, i, res.StatusCode)
			}
		}
	}
}

func TestBytesOut(t *testing.T) {
	h := newAPI(api.Options{}, workplace.Limits{BytesOutPerSecond: 100 << 10})
	for i := range 100 {
		res := do(h, http.MethodGet, "/v1/gpus", "", "")
		if res.StatusCode == http.StatusOK && len(read(t, res)) > 0 {
			continue
		}
		if p := decodeProblem(t, res); res.StatusCode != http.StatusTooManyRequests || p.Code != "rate_limited" ||
			res.Header.Get("Retry-After") == "" || i == 0 {
			t.Errorf("request %d: status %d, problem %+v", i, res.StatusCode, p)
		}
		if other := doFrom(h, "192.0.2.7:1", http.MethodGet, "/v1/version"); other.Code != http.StatusOK {
			t.Errorf("another client has status %d", other.Code)
		}
		if probe := do(h, http.MethodGet, "/readyz", "", ""); probe.StatusCode != http.StatusOK {
			t.Errorf("a probe has status %d", probe.StatusCode)
		}
		return
	}
	t.Error("the bytes of answers are not bounded")
}

func doFrom(h http.Handler, remote, method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = remote
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A batch is as many requests as it has lines, and as many bytes: it is slowed down, not cut off.
func TestBatchesArePaced(t *testing.T) {
	lines := strings.Repeat(job(1)+"\n", 6)
	for name, limits := range map[string]workplace.Limits{
		"lines": {RatePerSecond: 4},
		"bytes": {BytesOutPerSecond: 400},
	} {
		h := askedAPI(api.Options{}, echo, limits)
		began := time.Now()
		body := read(t, do(h, http.MethodPost, "/v1/estimate/batch", "application/x-ndjson", lines))
		if n := strings.Count(body, "\n"); n != 6 {
			t.Errorf("%s: %d lines", name, n)
		}
		if took := time.Since(began); took < 200*time.Millisecond {
			t.Errorf("%s: all at once, in %s", name, took)
		}
	}
}

// Whoever guesses keys is slowed down; keys that were good stay so at the same address.
func TestGuessedKeys(t *testing.T) {
	h := newDemo(t)
	if w := call(h, "GET", "/v1/catalog/changes", "", withKey); w.Code != http.StatusOK {
		t.Fatalf("status %d", w.Code)
	}
	limited := false
	for i := range 100 {
		w := call(h, "GET", "/v1/catalog/changes", "", fmt.Sprintf("Authorization: Bearer vrp_examplekey_%026d", i))
		if limited = w.Code == http.StatusTooManyRequests; limited {
			break
		}
		if w.Code != http.StatusUnauthorized {
			t.Fatalf("guess %d has status %d", i, w.Code)
		}
	}
	if !limited {
		t.Error("a hundred keys can be tried at once")
	}
	if w := call(h, "GET", "/v1/catalog/changes", "", withKey); w.Code != http.StatusOK {
		t.Errorf("the good key has status %d", w.Code)
	}
}

// Proxies that write ports make no clients of connections.
func TestForwardedPortsAreNoClients(t *testing.T) {
	for _, pair := range [][2]string{
		{"192.0.2.1:1000", "192.0.2.1:1001"}, {"192.0.2.1", `"192.0.2.1:4"`}, {"[2001:db8::1]:5", "2001:db8::1"},
		{"[2001:db8::1]", "2001:db8::1"},
	} {
		h := newAPI(api.Options{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
			workplace.Limits{RatePerSecond: 0.001})
		for i, forwarded := range []string{"198.51.100.1:9", pair[0], pair[1]} {
			r := httptest.NewRequest(http.MethodGet, "/v1/version", nil)
			r.RemoteAddr = "10.0.0.1:1"
			r.Header.Set("X-Forwarded-For", forwarded)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if want := []int{200, 200, 429}[i]; w.Code != want {
				t.Errorf("request %d, for %q: status %d, want %d", i, forwarded, w.Code, want)
			}
		}
	}
}
