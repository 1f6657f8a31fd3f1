package api_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/workplace"
)

// start serves an API on listeners of this machine until the test ends.
func start(t *testing.T, a *api.API, l api.Listeners) (address, admin string) {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l.API, l.Admin, l.Finish = listen(), listen(), 10*time.Second
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.API.Addr().String(), l.Admin.Addr().String()
}

func get(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res, read(t, res)
}

func metricsOf(t *testing.T, h http.Handler) string {
	t.Helper()
	return read(t, do(h, http.MethodGet, "/metrics", "", ""))
}

func TestAdminListenerHasTheMetrics(t *testing.T) {
	address, admin := start(t, newAPI(api.Options{AdminOnly: true}), api.Listeners{})
	c := &http.Client{Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	for url, want := range map[string]string{
		admin + "/metrics":                   "vramplan_http_connections{listener=\"api\"}",
		admin + "/healthz":                   `{"status":"ok"}`,
		admin + "/readyz":                    `"status":"ready"`,
		admin + "/debug/pprof/":              "goroutine",
		admin + "/debug/pprof/heap?debug=1":  "heap profile",
		admin + "/v1/version":                `"code":"not_found"`,
		address + "/metrics":                 `are on its admin listener`,
		address + "/healthz":                 `{"status":"ok"}`,
		address + "/debug/pprof/":            `"code":"not_found"`,
		address + "/debug/pprof/heap?gc=1":   `"code":"not_found"`,
		address + "/debug/pprof/cmdline?x=1": `"code":"not_found"`,
	} {
		if _, body := get(t, c, "http://"+url); !strings.Contains(body, want) {
			t.Errorf("%s has no %s: %.300s", url, want, body)
		}
	}
}

func TestTLS(t *testing.T) {
	// httptest's certificate is for example.com and 127.0.0.1.
	donor := httptest.NewTLSServer(nil)
	certificate, roots := donor.TLS.Certificates, x509.NewCertPool()
	roots.AddCert(donor.Certificate())
	donor.Close()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: true}}
	address, _ := start(t, newAPI(api.Options{}),
		api.Listeners{TLS: &tls.Config{Certificates: certificate, NextProtos: []string{"h2", "http/1.1"}}})
	defer client.CloseIdleConnections()
	res, _ := get(t, client, "https://"+address+"/healthz")
	if res.StatusCode != http.StatusOK || res.ProtoMajor != 2 || res.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("%s %s, header %v", res.Proto, res.Status, res.Header)
	}
	// A batch streams over HTTP/2 too.
	res, err := client.Post("https://"+address+"/v1/estimate/batch", "application/x-ndjson",
		strings.NewReader(job(1)+"\n{}\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if lines := strings.Count(read(t, res), "\n"); lines != 2 {
		t.Errorf("%d lines", lines)
	}
}

func TestCrossOrigin(t *testing.T) {
	ask := func(h http.Handler, method, origin string) http.Header {
		r := httptest.NewRequest(method, "/v1/estimate", strings.NewReader(story))
		r.Header.Set("Origin", origin)
		if method == http.MethodOptions {
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Access-Control-Request-Headers", "content-type")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Header()
	}
	const portal = "https://portal.example.com"
	off, on := newAPI(api.Options{}), newAPI(api.Options{Origins: []string{portal}})
	for _, method := range []string{http.MethodPost, http.MethodOptions} {
		if got := ask(off, method, portal).Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s without origins allows %q", method, got)
		}
		if got := ask(on, method, "https://evil.example.com").Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s of another origin allows %q", method, got)
		}
		if got := ask(on, method, portal).Get("Access-Control-Allow-Origin"); got != portal {
			t.Errorf("%s of the origin allows %q", method, got)
		}
	}
	if got := ask(on, http.MethodPost, portal).Get("Access-Control-Allow-Credentials"); got != "" {
		t.Errorf("credentials are allowed: %q", got)
	}
}

// Behind a trusted proxy clients have limits of their own; others cannot make
// themselves new ones.
func TestClientsBehindProxies(t *testing.T) {
	h := newAPI(api.Options{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		workplace.Limits{RatePerSecond: 0.001})
	for i, c := range []struct {
		peer, forwarded string
		status          int
	}{
		{"10.0.0.1:1", "192.0.2.1", 200},
		{"10.0.0.1:1", "192.0.2.2", 200},
		{"10.0.0.2:1", "192.0.2.1", 429},
		{"10.0.0.1:1", "192.0.2.9, 192.0.2.1, 10.0.0.7", 429},
		{"192.0.2.77:1", "192.0.2.50", 200},
		{"192.0.2.77:1", "192.0.2.51", 429},
		{"[2001:db8::1]:1", "", 200},
		{"[2001:db8::2]:1", "", 429}, // the same /64
	} {
		r := httptest.NewRequest(http.MethodGet, "/v1/version", nil)
		r.RemoteAddr = c.peer
		r.Header.Set("X-Forwarded-For", c.forwarded)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("request %d, from %s for %q: status %d, want %d", i, c.peer, c.forwarded, w.Code, c.status)
		}
	}
}

func TestTraceIsLogged(t *testing.T) {
	var out bytes.Buffer
	logger := zerolog.New(&out)
	h := newAPI(api.Options{Logger: &logger})
	for _, traceparent := range []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-made-up\"}"} {
		r := httptest.NewRequest(http.MethodGet, "/v1/version", nil)
		r.Header.Set("Traceparent", traceparent)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0],
		`"trace_id":"0af7651916cd43dd8448eb211c80319c","parent_id":"b7ad6b7169203331"`) ||
		strings.Contains(lines[1], "trace_id") {
		t.Errorf("the log is %s", &out)
	}
}

// An answer that takes too long is a problem, and its slot is not free before the
// work is done: otherwise clients that ask again would pile it up.
func TestLateAnswers(t *testing.T) {
	end := make(chan struct{})
	h := askedAPI(api.Options{}, func(ctx context.Context, job estimator.Job) (*estimator.Result, error) {
		<-end
		return echo(ctx, job)
	}, workplace.Limits{MaxConcurrent: 1, MaxQueue: 1, QueueTimeout: time.Millisecond,
		RequestTimeout: 10 * time.Millisecond})
	for range 2 {
		res := do(h, http.MethodPost, "/v1/estimate", "application/json", job(1))
		if p := decodeProblem(t, res); res.StatusCode != http.StatusServiceUnavailable || p.Code != "overloaded" ||
			res.Header.Get("Retry-After") == "" {
			t.Errorf("status %d, problem %+v", res.StatusCode, p)
		}
	}
	close(end)
	status := 0
	for deadline := time.Now().Add(10 * time.Second); status != http.StatusOK && time.Now().Before(deadline); {
		status = do(h, http.MethodPost, "/v1/estimate", "application/json", job(1)).StatusCode
	}
	if status != http.StatusOK {
		t.Errorf("status %d after the work was done", status)
	}
}

// However many clients send slowly, the bytes that they hold are bounded. Whoever
// has held theirs longest is cut off, and not who comes with an honest request.
func TestHeldBytesAreBounded(t *testing.T) {
	a := newAPI(api.Options{}, workplace.Limits{MaxHeldBytes: 300 << 10})
	address, _ := start(t, a, api.Listeners{})
	big := fmt.Sprintf(`{"model":{"preset":"gpt2"},"training":{"micro_batch":1},%s"gpus":["t4"]}`,
		strings.Repeat(" ", 200<<10))
	slow, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	_ = slow.SetDeadline(time.Now().Add(20 * time.Second))
	// All but the last byte.
	if _, err := fmt.Fprintf(slow, "POST /v1/estimate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(big),
		big[:len(big)-1]); err != nil {
		t.Fatal(err)
	}
	booked := fmt.Sprintf("\nvramplan_held_bytes %d\n", len(big)-1)
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(metricsOf(t, a), booked) &&
		time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if status := do(a, http.MethodPost, "/v1/estimate", "application/json", big).StatusCode; status != http.StatusOK {
		t.Errorf("an honest request has status %d", status)
	}
	res, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := decodeProblem(t, res); res.StatusCode != http.StatusServiceUnavailable || p.Code != "overloaded" ||
		res.Header.Get("Retry-After") == "" {
		t.Errorf("the slow client: status %d, %+v", res.StatusCode, p)
	}
	// What is too much by itself cuts off nobody else.
	res = do(a, http.MethodPost, "/v1/estimate", "application/json",
		strings.Replace(big, " ", strings.Repeat(" ", 200<<10), 1))
	if p := decodeProblem(t, res); res.StatusCode != http.StatusServiceUnavailable || p.Code != "overloaded" {
		t.Errorf("too much: status %d, %+v", res.StatusCode, p)
	}
	batch := read(t, do(a, http.MethodPost, "/v1/estimate/batch", "application/x-ndjson", job(1)+"\n"+
		strings.Repeat(big+"\n", 20)))
	if lines := strings.Count(batch, "\n"); lines == 0 || !strings.HasPrefix(batch, `{"versions"`) {
		t.Errorf("a batch: %.300s", batch)
	}
	if !strings.Contains(metricsOf(t, a), "\nvramplan_held_bytes 0\n") {
		t.Error("not all bytes were given back")
	}
}

// A batch gives back what it held, whatever its lines are.
func TestBatchGivesBytesBack(t *testing.T) {
	h := newAPI(api.Options{})
	body := job(1) + "\n\n{}\n" + strings.Repeat("x", 2<<20) + "\n" + job(2)
	if lines := strings.Count(read(t, do(h, http.MethodPost, "/v1/estimate/batch", "application/x-ndjson", body)),
		"\n"); lines != 4 {
		t.Fatalf("%d lines", lines)
	}
	if !strings.Contains(metricsOf(t, h), "\nvramplan_held_bytes 0\n") {
		t.Error("not all bytes were given back")
	}
}

// Where all connections have a request under way, one too many is closed at once.
func TestTooManyConnectionsAreClosed(t *testing.T) {
	began, end := make(chan struct{}, 2), make(chan struct{})
	a := askedAPI(api.Options{Limits: api.Limits{MaxConnections: 2}},
		func(ctx context.Context, job estimator.Job) (*estimator.Result, error) {
			began <- struct{}{}
			<-end
			return echo(ctx, job)
		})
	address, admin := start(t, a, api.Listeners{})
	for i := range 2 {
		c := dialFrom(t, fmt.Sprintf("127.0.0.%d", 2+i), address)
		fmt.Fprintf(c, "POST /v1/estimate HTTP/1.1\r\nHost: x\r\nContent-Type: "+
			"application/json\r\nContent-Length: %d\r\n\r\n%s", len(job(1)), job(1))
		<-began
	}
	if !closed(dialFrom(t, "127.0.0.9", address), 20*time.Second) {
		t.Error("a connection too many is not closed")
	}
	// The operators' listener has connections of its own.
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	if _, body := get(t, client, "http://"+admin+"/metrics"); !strings.Contains(body, `vramplan_shed_total{reason="connections"} 1`) {
		t.Error("the metrics do not count it")
	}
	close(end)
}

// While the service drains, answers tell clients to connect elsewhere.
func TestDrainSendsClientsElsewhere(t *testing.T) {
	url, stop := serve(t, newAPI(api.Options{}), 500*time.Millisecond)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	if res, _ := get(t, client, url+"/v1/version"); res.Close {
		t.Error("the connection is closed before the drain")
	}
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	closed := false
	for range 400 {
		res, err := client.Get(url + "/readyz")
		if err != nil {
			break
		}
		res.Body.Close()
		if closed = res.Close && res.StatusCode == http.StatusServiceUnavailable; closed {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !closed {
		t.Error("no answer said that the connection closes")
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A job that does not fit JSON's depth is refused wherever documents are taken.
func TestDepthIsBounded(t *testing.T) {
	h := newAPI(api.Options{})
	deep := `{"model": {"hf_config": ` + strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40) +
		`}, "training": {"micro_batch": 1}}`
	for _, target := range []string{"/v1/estimate", "/v1/plan"} {
		res := do(h, http.MethodPost, target, "application/json", deep)
		var p struct{ Errors []struct{ Code string } }
		if err := json.Unmarshal([]byte(read(t, res)), &p); err != nil || res.StatusCode != http.StatusBadRequest ||
			len(p.Errors) != 1 || p.Errors[0].Code != "too_deep" {
			t.Errorf("%s: status %d, %+v, %v", target, res.StatusCode, p, err)
		}
	}
}
