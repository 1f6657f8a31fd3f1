package api_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"
)

// No test may leave a goroutine behind.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(leaving{m})
}

// leaving closes the connections that clients of the tests keep for later.
type leaving struct{ m *testing.M }

func (l leaving) Run() int {
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	return l.m.Run()
}
