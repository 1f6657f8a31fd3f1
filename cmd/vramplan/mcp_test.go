package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The command answers the SDK's client over standard input and output, writes decisions down, and ends when the
// assistant closes its input.
func TestAssistantOverStandardInput(t *testing.T) {
	decisions := filepath.Join(t.TempDir(), "decisions.ndjson")
	in, toProgram := io.Pipe()
	fromProgram, out := io.Pipe()
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		code := run(t.Context(), []string{"mcp", "--decisions", decisions}, in, out, &stderr, nil)
		_ = out.Close()
		ended <- code
	}()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: fromProgram, Writer: toProgram}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const job = `{"job": {"model": {"preset": "nanogpt/train_gpt2"}, "gpus": ["rtx-4070"], "training": {"micro_batch": 16,
		"gradient_accumulation": 32, "optimizer": "adamw_torch_fused"}}}`
	for tool, part := range map[string]string{"estimate": "Does not fit on rtx-4070: it needs 18.62 GiB of 11.71 GiB",
		"check": "would refuse it", "plan": "8 × 64"} {
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(job)})
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		if text := r.Content[0].(*mcp.TextContent).Text; r.IsError || !strings.Contains(text, part) {
			t.Errorf("%s: %s", tool, text)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	_ = toProgram.Close()
	if code := <-ended; code != exitOK {
		t.Errorf("it ends with %d: %s", code, stderr.String())
	}
	line, err := os.ReadFile(decisions)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(line), `"hook":"mcp"`) || !strings.Contains(string(line), `"verdict":"does_not_fit"`) ||
		strings.Count(string(line), "\n") != 1 {
		t.Errorf("decisions: %s", line)
	}
}
