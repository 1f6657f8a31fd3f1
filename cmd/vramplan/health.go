package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// healthCommand is the health check of a container that has no shell and no curl.
type healthCommand struct {
	URL     string        `name:"url" setting:"VRAMPLAN_URL" placeholder:"URL" help:"Service to ask; this machine at the port of --listen if not given."`
	Listen  string        `default:"127.0.0.1:8080" setting:"VRAMPLAN_LISTEN" help:"Where the service listens."`
	Timeout time.Duration `default:"2s" help:"How long the answer may take."`
}

// Run succeeds when the service says that it is ready.
func (c *healthCommand) Run(ctx context.Context, t *terminal) error {
	target := strings.TrimSuffix(c.URL, "/")
	if target == "" {
		host, port, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return usage("--listen %q: %v", c.Listen, err)
		}
		if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
			host = "127.0.0.1" // listening everywhere includes here
		}
		target = "http://" + net.JoinHostPort(host, port)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target+"/readyz", nil)
	if err != nil {
		return usage("--url %q: %v", c.URL, err)
	}
	res, err := http.DefaultClient.Do(req)
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
