package api

import (
	"context"
	"net"
	"net/http"
	"net/netip"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/go-chi/httprate"
)

type clientKey struct{}

// withClient notes who is at the other end of a connection, once for all of its
// requests.
func withClient(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, clientKey{}, canonical(c.RemoteAddr().String()))
}

// canonical is the address of a client without its port, and of an IPv6 address
// the /64, which is what one client has.
func canonical(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	return httprate.CanonicalizeIP(host)
}

// clientOf names the client of a request: the one that a trusted proxy names, or
// else the other end of the connection. It is empty within a process.
func clientOf(ctx context.Context) string {
	if ip := middleware.GetClientIP(ctx); ip != "" {
		return canonical(ip)
	}
	client, _ := ctx.Value(clientKey{}).(string)
	return client
}

// behindProxies reads X-Forwarded-For where the connection comes from a proxy that
// is trusted to write it; from anybody else it could be made up.
func behindProxies(trusted []netip.Prefix) func(http.Handler) http.Handler {
	if len(trusted) == 0 {
		return func(next http.Handler) http.Handler { return next }
	}
	prefixes := make([]string, len(trusted))
	for i, p := range trusted {
		prefixes[i] = p.String()
	}
	return middleware.ClientIPFromXFF(prefixes...)
}
