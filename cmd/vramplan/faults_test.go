package main

import (
	"net/http"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/vramplan/vramplan/api/problem"
)

// broken panics as a fault of the program would.
func broken() (stack []byte) {
	defer func() {
		_ = recover()
		stack = debug.Stack()
	}()
	var none []int
	_ = none[3]
	return nil
}

// A fault is said in words, with the place of it and how to report it, and without what only a service's log has.
func TestFaultsArePlainWords(t *testing.T) {
	var said strings.Builder
	log := zerolog.New(faults{&said})
	log.Error().Interface("panic", "index out of range [3]").Bytes("stack", broken()).Str("request_id", "ABC").Msg("panic")
	got := said.String()
	for _, want := range []string{"vramplan: internal error: index out of range [3].", "vramplan version", "report it",
		"\n  at cmd/vramplan/faults_test.go:"} {
		if !strings.Contains(got, want) {
			t.Errorf("a fault is said as\n%s\nwant %q in it", got, want)
		}
	}
	for _, not := range []string{"{", "X-Request-Id", "goroutine", "ABC", "runtime/panic.go"} {
		if strings.Contains(got, not) {
			t.Errorf("a fault is said as\n%s\nwith %q in it", got, not)
		}
	}
}

// What the API says of a service's log is no help where there is no service.
func TestFaultOfThisProcessNamesNoRequest(t *testing.T) {
	for status, want := range map[int]string{http.StatusInternalServerError: "No answer, because of an internal error.",
		http.StatusServiceUnavailable: "as it came"} {
		p := problem.Problem{Detail: "as it came"}
		p.Status = status
		ofThisProcess(&p)
		if p.Detail != want {
			t.Errorf("%d: %q, want %q", status, p.Detail, want)
		}
	}
}
