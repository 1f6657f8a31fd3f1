package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// A service does not start with a setting that makes no sense, and says which.
func TestBadSettingsAreNamed(t *testing.T) {
	for _, c := range []struct{ flag, setting, bad string }{
		{"--listen", "VRAMPLAN_LISTEN", "8080"},
		{"--admin-listen", "VRAMPLAN_ADMIN_LISTEN", "localhost"},
		{"--tls-key", "VRAMPLAN_TLS_KEY", "key.pem"},
		{"--tls-certificate", "VRAMPLAN_TLS_CERTIFICATE", "cert.pem"},
		{"--rate-limit", "VRAMPLAN_RATE_LIMIT", "-1"},
		{"--rate-limit", "VRAMPLAN_RATE_LIMIT", "NaN"},
		{"--rate-limit", "VRAMPLAN_RATE_LIMIT", "much"},
		{"--max-concurrent", "VRAMPLAN_MAX_CONCURRENT", "-1"},
		{"--max-queue", "VRAMPLAN_MAX_QUEUE", "0"},
		{"--queue-timeout", "VRAMPLAN_QUEUE_TIMEOUT", "0s"},
		{"--max-connections", "VRAMPLAN_MAX_CONNECTIONS", "0"},
		{"--memory-limit", "VRAMPLAN_MEMORY_LIMIT", "3"},
		{"--memory-limit", "VRAMPLAN_MEMORY_LIMIT", "plenty"},
		{"--max-held", "VRAMPLAN_MAX_HELD", "1MiB"},
		{"--max-replay", "VRAMPLAN_MAX_REPLAY", "1MiB"},
		{"--header-timeout", "VRAMPLAN_HEADER_TIMEOUT", "0s"},
		{"--body-timeout", "VRAMPLAN_BODY_TIMEOUT", "-1s"},
		{"--request-timeout", "VRAMPLAN_REQUEST_TIMEOUT", "25h"},
		{"--write-timeout", "VRAMPLAN_WRITE_TIMEOUT", "30"},
		{"--idle-timeout", "VRAMPLAN_IDLE_TIMEOUT", "0s"},
		{"--drain", "VRAMPLAN_DRAIN", "-1s"},
		{"--finish-timeout", "VRAMPLAN_FINISH_TIMEOUT", "0s"},
		{"--cors-origins", "VRAMPLAN_CORS_ORIGINS", "https://portal.example.com/path"},
		{"--cors-origins", "VRAMPLAN_CORS_ORIGINS", "*,portal.example.com"},
		{"--trusted-proxies", "VRAMPLAN_TRUSTED_PROXIES", "10.0.0.0/8,proxy"},
		{"--cache", "VRAMPLAN_CACHE", "-1"},
	} {
		for _, way := range []struct {
			args, environ []string
		}{{args: []string{"serve", c.flag + "=" + c.bad}},
			{args: []string{"serve"}, environ: []string{c.setting + "=" + c.bad}}} {
			var stderr bytes.Buffer
			code := run(context.Background(), way.args, strings.NewReader(""), &bytes.Buffer{}, &stderr, way.environ)
			if code != exitUsage || !strings.Contains(stderr.String(), c.flag) {
				t.Errorf("%v %v: code %d, %s", way.args, way.environ, code, &stderr)
			}
			if way.environ != nil && !strings.Contains(stderr.String(), c.setting) {
				t.Errorf("%v is not named: %s", way.environ, &stderr)
			}
		}
	}
	var stderr bytes.Buffer
	run(context.Background(), []string{"serve", "--drain=-1s", "--cache=-1", "--rate-limit=-2"}, strings.NewReader(""),
		&bytes.Buffer{}, &stderr, nil)
	for _, flag := range []string{"--drain", "--cache", "--rate-limit"} {
		if !strings.Contains(stderr.String(), flag) {
			t.Errorf("%s is not among the errors: %s", flag, &stderr)
		}
	}
}

func FuzzSettings(f *testing.F) {
	f.Add("512MiB", "https://portal.example.com")
	f.Add("1e400", "http://[::1]:80")
	f.Add("-5", "https://user@host")
	f.Fuzz(func(t *testing.T, size, origin string) {
		var b byteCount
		if err := b.UnmarshalText([]byte(size)); err == nil && (b < 0 || b > 1<<50) {
			t.Errorf("%q is read as %d bytes", size, b)
		}
		if isOrigin(origin) && strings.ContainsAny(strings.TrimPrefix(origin, "http"), " ,\r\n@?#") {
			t.Errorf("%q is taken for an origin", origin)
		}
	})
}

func TestMemoryIsShared(t *testing.T) {
	for _, c := range []struct{ limit, held, want byteCount }{
		{64 << 20, 0, 8 << 20},
		{4 << 30, 0, maxHeldByDefault},
		{4 << 30, 7 << 20, 7 << 20},
	} {
		if got := (&limitFlags{MemoryLimit: c.limit, MaxHeld: c.held}).memory(); got.held != int64(c.want) ||
			got.limit != int64(c.limit) {
			t.Errorf("of %s, %s asked for: %+v, want %s", c.limit, c.held, got, c.want)
		}
	}
}

// A new pair of files is taken up; half a pair, or nonsense, changes nothing.
func TestCertificateReloads(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if _, err := openCertificate(certFile, keyFile); err == nil ||
		!strings.Contains(err.Error(), "VRAMPLAN_TLS_CERTIFICATE") {
		t.Errorf("without files: %v", err)
	}
	write := func(name string, parts ...[]byte) {
		for i, file := range []string{certFile, keyFile} {
			if i < len(parts) && parts[i] != nil {
				if err := os.WriteFile(file, parts[i], 0o600); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
	}
	cert1, key1 := selfSigned(t, "one")
	cert2, key2 := selfSigned(t, "two")
	write("first", cert1, key1)
	c, err := openCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	serves := func() string {
		got, err := c.config().GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return got.Leaf.Subject.CommonName
	}
	for _, step := range []struct {
		name, serves string
		files        [][]byte
		changed, bad bool
	}{
		{"the same files", "one", nil, false, false},
		{"a certificate without its key", "one", [][]byte{cert2}, false, true},
		{"both", "two", [][]byte{nil, key2}, true, false},
		{"nonsense", "two", [][]byte{[]byte("x"), []byte("y")}, false, true},
		{"back", "one", [][]byte{cert1, key1}, true, false},
	} {
		write(step.name, step.files...)
		changed, err := c.reload()
		if changed != step.changed || (err != nil) != step.bad || serves() != step.serves {
			t.Errorf("%s: changed %v, %v, serves %s", step.name, changed, err, serves())
		}
	}
}

// selfSigned makes a certificate for 127.0.0.1.
func selfSigned(t interface{ Fatal(...any) }, name string) (certPEM, keyPEM []byte) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// writeCertificate makes a pair of files: certificate CERT KEY
func writeCertificate(ts *testscript.TestScript, _ bool, args []string) {
	cert, key := selfSigned(fatal{ts}, "script")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), cert, 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), key, 0o600))
}

type fatal struct{ ts *testscript.TestScript }

func (f fatal) Fatal(args ...any) { f.ts.Fatalf("%v", args) }
