package apart_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vramplan/vramplan/service/apart"
)

// asChild is the variable's name, in the arguments, that makes the test program a child.
const asChild = "as-a-child"

func TestMain(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != asChild {
		os.Exit(m.Run())
	}
	err := apart.Serve(os.Stdin, os.Stdout, func(work json.RawMessage) (any, error) {
		var what string
		if err := json.Unmarshal(work, &what); err != nil {
			return nil, err
		}
		switch what {
		case "memory":
			var kept [][]byte
			for {
				block := make([]byte, 1<<20)
				for i := range block {
					block[i] = 1
				}
				kept = append(kept, block)
				if len(kept) > 1<<14 {
					return len(kept), nil
				}
			}
		case "time":
			for n := 0; ; n++ {
				if n < 0 {
					return n, nil
				}
			}
		case "stack":
			return deep(1), nil
		case "panic":
			panic("the secret of " + what)
		case "much":
			return strings.Repeat("x", 20<<20), nil
		case "environment":
			return os.Environ(), nil
		}
		return "did " + what, nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func deep(n int) int {
	if n < 0 {
		return n
	}
	return deep(n+1) + 1
}

func room(t *testing.T, seconds int64) *apart.Room {
	t.Helper()
	path, name, err := apart.Program()
	if err != nil {
		t.Fatal(err)
	}
	return &apart.Room{Program: path, Args: []string{name, asChild},
		Limits: apart.Limits{MemoryBytes: 256 << 20, Seconds: seconds}}
}

// Work that ends is answered; work without an end, of time, memory, stack or words, ends by its limits and says so.
func TestWorkEndsByItsLimits(t *testing.T) {
	for work, want := range map[string]error{"that": nil, "memory": apart.ErrTooMuch, "time": apart.ErrTooMuch,
		"stack": apart.ErrTooMuch, "much": apart.ErrTooMuch} {
		t.Run(work, func(t *testing.T) {
			t.Parallel()
			var answer string
			err := room(t, 1).Do(t.Context(), work, &answer)
			if !errors.Is(err, want) || want == nil && answer != "did that" {
				t.Errorf("%.20q, %v", answer, err)
			}
		})
	}
}

// A fault of the program is one, with the place and without the words.
func TestFaultsHaveNoWords(t *testing.T) {
	err := room(t, 10).Do(t.Context(), "panic", new(string))
	if err == nil || errors.Is(err, apart.ErrTooMuch) {
		t.Fatalf("%v", err)
	}
	if strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "apart_test.go:") {
		t.Errorf("it says %v", err)
	}
}

// Nothing of this process's environment is the child's.
func TestNoEnvironment(t *testing.T) {
	t.Setenv("VRAMPLAN_DATABASE", "postgres://u:secret@h/d")
	var environment []string
	if err := room(t, 10).Do(t.Context(), "environment", &environment); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(strings.Join(environment, "\n"), "secret") {
		t.Errorf("the child has %q", environment)
	}
}

// Work ends with its request, and nothing is left.
func TestWorkEndsWithItsRequest(t *testing.T) {
	r := room(t, 60)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Do(ctx, "time", new(int)) }()
	time.Sleep(300 * time.Millisecond)
	cancelled := time.Now()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	t.Logf("it ended %v after its request", time.Since(cancelled))
	for deadline := time.Now().Add(10 * time.Second); r.Outliving() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d are left", r.Outliving())
		}
	}
}
