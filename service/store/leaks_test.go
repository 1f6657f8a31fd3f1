package store_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/vramplan/vramplan/service/store/pgtest"
)

// No test may leave a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(withServer{m}) }

// withServer has a PostgreSQL server for the tests that need one, and writes down what it was sent.
type withServer struct{ m *testing.M }

func (w withServer) Run() int { return pgtest.RunRecording(w.m, "vramplan", compareStatements) }
