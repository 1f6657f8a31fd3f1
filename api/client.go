package api

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"

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

// senderOf is clientOf, and within a process whoever the request says that it is from.
func senderOf(r *http.Request) string {
	if client := clientOf(r.Context()); client != "" {
		return client
	}
	return canonical(r.RemoteAddr)
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
	read := middleware.ClientIPFromXFF(prefixes...)
	return func(next http.Handler) http.Handler {
		h := read(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if given := r.Header["X-Forwarded-For"]; len(given) > 0 {
				r.Header["X-Forwarded-For"] = withoutPorts(given)
			}
			h.ServeHTTP(w, r)
		})
	}
}

// withoutPorts leaves the addresses of X-Forwarded-For. Some proxies write the port of the connection behind the
// address (192.0.2.1:4711, [2001:db8::1]:4711); every connection would be a client of its own.
func withoutPorts(lines []string) []string {
	plain := make([]string, len(lines))
	for i, line := range lines {
		entries := strings.Split(line, ",")
		for j, entry := range entries {
			entry = strings.Trim(strings.TrimSpace(entry), `"`)
			if at, err := netip.ParseAddrPort(entry); err == nil {
				entry = at.Addr().String()
			} else if inner, ok := strings.CutPrefix(entry, "["); ok {
				entry = strings.TrimSuffix(inner, "]")
			}
			entries[j] = entry
		}
		plain[i] = strings.Join(entries, ", ")
	}
	return plain
}
