package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/service/workplace"
)

// addressFlags say where a service listens; health needs them too.
type addressFlags struct {
	Listen         string `default:"127.0.0.1:8080" setting:"VRAMPLAN_LISTEN" placeholder:"HOST:PORT" help:"Address of the API."`
	AdminListen    string `setting:"VRAMPLAN_ADMIN_LISTEN" placeholder:"HOST:PORT" help:"Address for operators alone: metrics, profiles, probes. With it, the API has no /metrics any more; without it, there are no profiles."`
	TLSCertificate string `name:"tls-certificate" setting:"VRAMPLAN_TLS_CERTIFICATE" placeholder:"FILE" help:"PEM file with the certificate chain of the API; with it, the API is served over TLS alone. New files are taken up within seconds."`
	TLSKey         string `name:"tls-key" setting:"VRAMPLAN_TLS_KEY" placeholder:"FILE" help:"PEM file with the certificate's key."`
}

// limitFlags bound what clients can take.
type limitFlags struct {
	RateLimit               float64       `default:"0" setting:"VRAMPLAN_RATE_LIMIT" help:"Requests a second that one client may make; 0 is no limit."`
	MaxConcurrent           int           `default:"0" setting:"VRAMPLAN_MAX_CONCURRENT" help:"Jobs worked on at once; 0 is four a core and at least 16."`
	MaxConcurrentPerClient  int           `default:"0" setting:"VRAMPLAN_MAX_CONCURRENT_PER_CLIENT" help:"Jobs of one client worked on at once; 0 is a quarter of those of all."`
	MaxQueue                int           `default:"256" setting:"VRAMPLAN_MAX_QUEUE" help:"Jobs that may wait for their turn before others are told to come back."`
	QueueTimeout            time.Duration `default:"2s" setting:"VRAMPLAN_QUEUE_TIMEOUT" help:"How long a job may wait for its turn."`
	MaxConnections          int           `default:"8192" setting:"VRAMPLAN_MAX_CONNECTIONS" help:"Open connections of a listener; where there are more, the one goes that has waited longest for a request."`
	MaxConnectionsPerClient int           `default:"0" setting:"VRAMPLAN_MAX_CONNECTIONS_PER_CLIENT" help:"Open connections of one client; 0 is an eighth of those of all. Trusted proxies may have all."`
	MaxIdlePerClient        int           `default:"0" setting:"VRAMPLAN_MAX_IDLE_PER_CLIENT" help:"Connections of one client that wait for a request; 0 is a quarter of those that it may have."`
	MaxBytesOut             byteCount     `default:"64MiB" setting:"VRAMPLAN_MAX_BYTES_OUT" placeholder:"SIZE" help:"Bytes of answers that one client gets a second; it may have four seconds' worth at once."`
	MemoryLimit             byteCount     `default:"0" setting:"VRAMPLAN_MEMORY_LIMIT" placeholder:"SIZE" help:"Memory to stay below, as 512MiB; 0 is what the container may have. GOMEMLIMIT wins."`
	MaxHeld                 byteCount     `default:"0" setting:"VRAMPLAN_MAX_HELD" placeholder:"SIZE" help:"Documents and answers in memory for clients that send or read slowly; 0 is an eighth of the memory, up to 128MiB."`
	MaxReplay               byteCount     `default:"0" setting:"VRAMPLAN_MAX_REPLAY" placeholder:"SIZE" help:"Memory that estimates at work take together, as 192MiB; 0 is three eighths of the memory, and 768MiB where there is no limit."`
	HeaderTimeout           time.Duration `default:"5s" setting:"VRAMPLAN_HEADER_TIMEOUT" help:"How long the header of a request may take to arrive."`
	BodyTimeout             time.Duration `default:"15s" setting:"VRAMPLAN_BODY_TIMEOUT" help:"How long a document, or the next line of a batch, may take to arrive."`
	RequestTimeout          time.Duration `default:"20s" setting:"VRAMPLAN_REQUEST_TIMEOUT" help:"How long one job may take."`
	WriteTimeout            time.Duration `default:"30s" setting:"VRAMPLAN_WRITE_TIMEOUT" help:"How long a client may take to read an answer, or the next lines of a batch's."`
	IdleTimeout             time.Duration `default:"60s" setting:"VRAMPLAN_IDLE_TIMEOUT" help:"How long a connection stays open between requests."`
	Drain                   time.Duration `default:"1s" setting:"VRAMPLAN_DRAIN" help:"How long to go on answering after a signal, so that load balancers see that the service is about to stop."`
	FinishTimeout           time.Duration `default:"10s" setting:"VRAMPLAN_FINISH_TIMEOUT" help:"How long, after that, requests under way may take to end."`

	CORSOrigins    []string       `name:"cors-origins" setting:"VRAMPLAN_CORS_ORIGINS" placeholder:"ORIGIN,..." help:"Origins whose pages may call the API and show its pages in frames, as https://portal.example.com; * is all, none is the default."`
	TrustedProxies []netip.Prefix `setting:"VRAMPLAN_TRUSTED_PROXIES" placeholder:"NETWORK,..." help:"Networks of the proxies whose X-Forwarded-For says who the client is, as 10.0.0.0/8."`
}

// validate finds every bad value; kong has checked only that they are numbers.
func (a *addressFlags) validate() error {
	var bad []error
	for _, l := range []struct{ flag, setting, address string }{
		{"--listen", "VRAMPLAN_LISTEN", a.Listen}, {"--admin-listen", "VRAMPLAN_ADMIN_LISTEN", a.AdminListen},
	} {
		if _, _, err := net.SplitHostPort(l.address); err != nil && l.address != "" {
			bad = append(bad, fmt.Errorf("%s (%s) %q: give HOST:PORT", l.flag, l.setting, l.address))
		}
	}
	if (a.TLSCertificate == "") != (a.TLSKey == "") {
		bad = append(bad, errors.New("--tls-certificate (VRAMPLAN_TLS_CERTIFICATE) and --tls-key (VRAMPLAN_TLS_KEY): "+
			"give both or neither"))
	}
	return errors.Join(bad...)
}

func (f *limitFlags) validate() error {
	var bad []error
	refuse := func(flag, setting string, given any, accepted string) {
		bad = append(bad, fmt.Errorf("%s (%s) %v: give %s", flag, setting, given, accepted))
	}
	if !(f.RateLimit >= 0) || math.IsInf(f.RateLimit, 0) { // NaN is not ≥ 0 either
		refuse("--rate-limit", "VRAMPLAN_RATE_LIMIT", f.RateLimit, "0 or more requests a second")
	}
	for _, n := range []struct {
		flag, setting string
		value, least  int
	}{
		{"--max-concurrent", "VRAMPLAN_MAX_CONCURRENT", f.MaxConcurrent, 0},
		{"--max-concurrent-per-client", "VRAMPLAN_MAX_CONCURRENT_PER_CLIENT", f.MaxConcurrentPerClient, 0},
		{"--max-queue", "VRAMPLAN_MAX_QUEUE", f.MaxQueue, 1},
		{"--max-connections-per-client", "VRAMPLAN_MAX_CONNECTIONS_PER_CLIENT", f.MaxConnectionsPerClient, 0},
		{"--max-idle-per-client", "VRAMPLAN_MAX_IDLE_PER_CLIENT", f.MaxIdlePerClient, 0},
		{"--max-connections", "VRAMPLAN_MAX_CONNECTIONS", f.MaxConnections, 1},
	} {
		if n.value < n.least {
			refuse(n.flag, n.setting, n.value, fmt.Sprintf("%d or more", n.least))
		}
	}
	for _, d := range []struct {
		flag, setting string
		value, least  time.Duration
	}{
		{"--queue-timeout", "VRAMPLAN_QUEUE_TIMEOUT", f.QueueTimeout, time.Millisecond},
		{"--header-timeout", "VRAMPLAN_HEADER_TIMEOUT", f.HeaderTimeout, time.Millisecond},
		{"--body-timeout", "VRAMPLAN_BODY_TIMEOUT", f.BodyTimeout, time.Millisecond},
		{"--request-timeout", "VRAMPLAN_REQUEST_TIMEOUT", f.RequestTimeout, time.Millisecond},
		{"--write-timeout", "VRAMPLAN_WRITE_TIMEOUT", f.WriteTimeout, time.Millisecond},
		{"--idle-timeout", "VRAMPLAN_IDLE_TIMEOUT", f.IdleTimeout, time.Millisecond},
		{"--drain", "VRAMPLAN_DRAIN", f.Drain, 0},
		{"--finish-timeout", "VRAMPLAN_FINISH_TIMEOUT", f.FinishTimeout, time.Millisecond},
	} {
		if d.value < d.least || d.value > 24*time.Hour {
			refuse(d.flag, d.setting, d.value, fmt.Sprintf("%s to 24h", d.least))
		}
	}
	for _, m := range []struct {
		flag, setting string
		value, least  byteCount
	}{
		{"--memory-limit", "VRAMPLAN_MEMORY_LIMIT", f.MemoryLimit, 64 << 20},
		{"--max-held", "VRAMPLAN_MAX_HELD", f.MaxHeld, 4 << 20},
		{"--max-replay", "VRAMPLAN_MAX_REPLAY", f.MaxReplay, 16 << 20},
	} {
		if m.value != 0 && m.value < m.least {
			refuse(m.flag, m.setting, m.value, fmt.Sprintf("%s or more, or 0", m.least))
		}
	}
	if f.MaxBytesOut < 64<<10 {
		refuse("--max-bytes-out", "VRAMPLAN_MAX_BYTES_OUT", f.MaxBytesOut, "64 KiB or more")
	}
	for _, origin := range f.CORSOrigins {
		if !isOrigin(origin) {
			refuse("--cors-origins", "VRAMPLAN_CORS_ORIGINS", fmt.Sprintf("%q", origin),
				"origins such as https://portal.example.com, or *")
		}
	}
	return errors.Join(bad...)
}

// isOrigin accepts what a browser sends as Origin: scheme, host and perhaps a
// port, and nothing behind them.
func isOrigin(s string) bool {
	if s == "*" {
		return true
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" &&
		u.Scheme+"://"+u.Host == s && !strings.Contains(s, "*")
}

// limits are the flags as the API takes them.
func (f *limitFlags) limits() api.Limits {
	return api.Limits{
		MaxConnections: f.MaxConnections, MaxConnectionsPerClient: f.MaxConnectionsPerClient,
		MaxIdlePerClient: f.MaxIdlePerClient, HeaderTimeout: f.HeaderTimeout, BodyTimeout: f.BodyTimeout,
		WriteTimeout: f.WriteTimeout, IdleTimeout: f.IdleTimeout,
	}
}

// work are the flags as the workplace takes them.
func (f *limitFlags) work(m memory) workplace.Limits {
	return workplace.Limits{
		RatePerSecond: f.RateLimit, BytesOutPerSecond: int64(f.MaxBytesOut), MaxQueue: f.MaxQueue,
		MaxConcurrent:          cmp.Or(f.MaxConcurrent, workplace.DefaultPlaces()),
		MaxConcurrentPerClient: f.MaxConcurrentPerClient, MaxReadings: m.readers, QueueTimeout: f.QueueTimeout,
		RequestTimeout: f.RequestTimeout, ReplayBytes: m.replay, MaxHeldBytes: m.held,
	}
}

// open listens where the flags say. ctx ends the watch of the certificate.
func (a *addressFlags) open(ctx context.Context, log zerolog.Logger) (l api.Listeners, err error) {
	if a.TLSCertificate != "" {
		c, err := openCertificate(a.TLSCertificate, a.TLSKey)
		if err != nil {
			return l, err
		}
		go c.watch(ctx, log)
		l.TLS = c.config()
	}
	var config net.ListenConfig
	if l.API, err = config.Listen(ctx, "tcp", a.Listen); err != nil {
		return l, fmt.Errorf("--listen (VRAMPLAN_LISTEN) %q: %w", a.Listen, err)
	}
	if a.AdminListen != "" {
		if l.Admin, err = config.Listen(ctx, "tcp", a.AdminListen); err != nil {
			return l, errors.Join(fmt.Errorf("--admin-listen (VRAMPLAN_ADMIN_LISTEN) %q: %w", a.AdminListen, err),
				l.API.Close())
		}
	}
	return l, nil
}

// url is where clients find the API.
func (a *addressFlags) url(l api.Listeners) string {
	scheme := "http://"
	if l.TLS != nil {
		scheme = "https://"
	}
	return scheme + l.API.Addr().String()
}
