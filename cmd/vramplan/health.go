package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// healthCommand is the health check of a container that has no shell and no curl.
type healthCommand struct {
	addressFlags `embed:""`
	URL          string        `name:"url" setting:"VRAMPLAN_URL" placeholder:"URL" help:"Service to ask; if not given, the one that has the same settings here."`
	Timeout      time.Duration `default:"2s" help:"How long the answer may take."`
}

// target is where the service with these settings listens. The admin listener is
// asked before the API, which may have as many connections as it takes.
func (c *healthCommand) target() (string, error) {
	if c.URL != "" {
		return strings.TrimSuffix(c.URL, "/"), nil
	}
	flag, address, scheme := "--listen", c.Listen, "http://"
	if c.AdminListen != "" {
		flag, address = "--admin-listen", c.AdminListen
	} else if c.TLSCertificate != "" {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", usage("%s %q: %v", flag, address, err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1" // listening everywhere includes here
	}
	return scheme + net.JoinHostPort(host, port), nil
}

// client asks this machine whether a process answers. Whose certificate it has
// is not the question, and it need not be for 127.0.0.1.
func (c *healthCommand) client() *http.Client {
	if c.URL != "" {
		return http.DefaultClient
	}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}}
}

// Run succeeds when the service says that it is ready.
func (c *healthCommand) Run(ctx context.Context, t *terminal) error {
	target, err := c.target()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target+"/readyz", nil)
	if err != nil {
		return usage("--url %q: %v", c.URL, err)
	}
	res, err := c.client().Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s/readyz says %s", target, res.Status)
	}
	fmt.Fprintln(t.stdout, "ready")
	return nil
}
