package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// certificateInterval is how often the files of a certificate are looked at. They
// are read, not asked for their age: orchestrators swap links under the same name.
const certificateInterval = 5 * time.Second

// certificate is a pair of files that may be replaced while the service runs.
type certificate struct {
	certFile, keyFile string
	certPEM, keyPEM   []byte
	current           atomic.Pointer[tls.Certificate]
}

// openCertificate reads the files, which have to be good at the start.
func openCertificate(certFile, keyFile string) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile}
	if _, err := c.reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// reload takes up the files if they have changed and fit each other.
func (c *certificate) reload() (changed bool, err error) {
	certPEM, err := os.ReadFile(c.certFile)
	if err != nil {
		return false, fmt.Errorf("--tls-certificate (VRAMPLAN_TLS_CERTIFICATE): %w", err)
	}
	keyPEM, err := os.ReadFile(c.keyFile)
	if err != nil {
		return false, fmt.Errorf("--tls-key (VRAMPLAN_TLS_KEY): %w", err)
	}
	if bytes.Equal(certPEM, c.certPEM) && bytes.Equal(keyPEM, c.keyPEM) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return false, fmt.Errorf("%s and %s: %w", c.certFile, c.keyFile, err)
	}
	c.certPEM, c.keyPEM = certPEM, keyPEM
	c.current.Store(&pair)
	return true, nil
}

// watch takes up new files until ctx ends. Bad ones change nothing: the last good
// certificate goes on, and the log says why, once for each reason.
func (c *certificate) watch(ctx context.Context, log zerolog.Logger) {
	ticker := time.NewTicker(certificateInterval)
	defer ticker.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		changed, err := c.reload()
		switch {
		case err != nil && err.Error() != last:
			log.Error().Err(err).Msg("the new certificate cannot be used; the old one stays")
			last = err.Error()
		case changed:
			log.Info().Time("not_after", c.current.Load().Leaf.NotAfter).Msg("new certificate")
			last = ""
		}
	}
}

// config serves whatever certificate is current.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current.Load(), nil
		},
	}
}
