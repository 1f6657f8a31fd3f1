package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultEndpoint is the Hub (huggingface_hub/constants.py).
const DefaultEndpoint = "https://huggingface.co"

const (
	// maxRedirects is more than a renamed model on a mirror needs.
	maxRedirects = 5
	// defaultTimeout is for all of an answer, redirects included.
	defaultTimeout = 10 * time.Second
	maxHeaderBytes = 64 << 10
)

// Client asks a Hub for configurations.
type Client struct {
	endpoint *url.URL
	token    string
	http     *http.Client
	timeout  time.Duration
	// oneHost refuses answers that lead to another host.
	oneHost bool
}

// Options say whom a client asks.
type Options struct {
	// Endpoint is DefaultEndpoint where it is empty.
	Endpoint string
	// Token is sent to the endpoint and to nobody else.
	Token string
	// Timeout is for one answer; 10 s where it is 0.
	Timeout time.Duration
	// OneHost refuses to follow a redirect to another host, for those who ask on behalf of strangers.
	OneHost bool
}

// NewClient is a client of an endpoint; the error says what is wrong with its address.
func NewClient(o Options) (*Client, error) {
	endpoint, err := url.Parse(strings.TrimSuffix(cmp.Or(o.Endpoint, DefaultEndpoint), "/"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("HF_ENDPOINT: %w", err)
	case endpoint.Scheme != "http" && endpoint.Scheme != "https", endpoint.Hostname() == "", endpoint.User != nil,
		endpoint.RawQuery != "", endpoint.Fragment != "":
		return nil, fmt.Errorf("HF_ENDPOINT %.100q is not an address such as %s", endpoint.Redacted(), DefaultEndpoint)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxHeaderBytes
	return &Client{endpoint: endpoint, token: o.Token, timeout: cmp.Or(o.Timeout, defaultTimeout), oneHost: o.OneHost,
		http: &http.Client{Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

// StatusError is a Hub that answered and did not give the file.
type StatusError struct {
	Status int
	text   string
}

func (e *StatusError) Error() string { return e.text }

// Config asks for the config.json of a model.
func (c *Client) Config(ctx context.Context, n Name) (*Config, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	at := c.endpoint.JoinPath(strings.Split(n.Repo, "/")...)
	// A revision with a slash, such as refs/pr/1, is one part of the path (huggingface_hub/file_download.py,
	// hf_hub_url).
	address := at.String() + "/resolve/" + url.PathEscape(n.Revision) + "/config.json"
	res, err := c.follow(ctx, address)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			err = fmt.Errorf("no answer within %s", c.timeout)
		}
		return nil, fmt.Errorf("%s: %w", c.endpoint.Host, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, c.refused(res, n)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxConfigBytes+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%s: no whole answer within %s", c.endpoint.Host, c.timeout)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", c.endpoint.Host, err)
	case len(text) > maxConfigBytes:
		return nil, tooLong("the config.json of " + n.Repo + " at " + c.endpoint.Host)
	}
	from := fmt.Sprintf("config.json of %s at %s", n, c.endpoint.Host)
	if id := res.Header.Get("X-Repo-Commit"); commit.MatchString(id) {
		from += ", commit " + shortCommit(id)
	}
	return &Config{Text: text, From: from}, nil
}

// follow asks, and follows redirects by itself: net/http would hand the token on to other ports of a host and to the
// hosts below it.
func (c *Client) follow(ctx context.Context, address string) (*http.Response, error) {
	for range maxRedirects + 1 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("User-Agent", "vramplan")
		if c.token != "" && origin(req.URL) == origin(c.endpoint) {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		res, err := c.http.Do(req)
		if err != nil {
			var failed *url.Error
			if errors.As(err, &failed) {
				err = failed.Err // the address may hold what a mirror signs with
			}
			return nil, err
		}
		switch res.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
			http.StatusPermanentRedirect:
		default:
			return res, nil
		}
		next, err := res.Location()
		res.Body.Close()
		switch {
		case err != nil:
			return nil, fmt.Errorf("a redirect without an address: %w", err)
		case next.Scheme != "https" && (next.Scheme != "http" || req.URL.Scheme == "https"):
			return nil, fmt.Errorf("a redirect to %.60q, which is less safe than %s", next.Scheme+"://", req.URL.Scheme)
		case c.oneHost && origin(next) != origin(c.endpoint):
			return nil, fmt.Errorf("a redirect to %.100q, another host", next.Host)
		}
		next.User = nil
		address = next.String()
	}
	return nil, fmt.Errorf("more than %d redirects", maxRedirects)
}

// origin is the scheme, host and port of an address.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// refused says what a status means, and what to do next.
func (c *Client) refused(res *http.Response, n Name) error {
	host := c.endpoint.Host
	text := strings.TrimSpace(fmt.Sprintf("%s answers %d %s", host, res.StatusCode, http.StatusText(res.StatusCode)))
	code := res.Header.Get("X-Error-Code") // huggingface_hub/utils/_http.py (hf_raise_for_status)
	token := "set HF_TOKEN to a token that may read it"
	if c.token != "" {
		token = "the token in HF_TOKEN may not read it"
	}
	switch {
	case code == "GatedRepo" || res.StatusCode == http.StatusForbidden:
		text = fmt.Sprintf("%s: %s asks its readers to agree to something first: do so at %s, and %s", text, n.Repo,
			c.endpoint.JoinPath(n.Repo), token)
	case code == "RevisionNotFound":
		text = fmt.Sprintf("%s: %s has no revision %s", text, n.Repo, n.Revision)
	case code == "EntryNotFound":
		text = fmt.Sprintf("%s: %s has no config.json, which models of transformers have", text, n.Repo)
	case res.StatusCode == http.StatusUnauthorized: // what the Hub says of names that it does not have, too
		text = fmt.Sprintf("%s: there is no %s, or not for everybody: %s", text, n.Repo, token)
	case res.StatusCode == http.StatusNotFound:
		text = fmt.Sprintf("%s: there is no %s, or it has no config.json", text, n)
	case res.StatusCode == http.StatusTooManyRequests:
		text += ": ask later"
	}
	return &StatusError{Status: res.StatusCode, text: text}
}
