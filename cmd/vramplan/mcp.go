package main

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vramplan/vramplan/api/assistant"
	"github.com/vramplan/vramplan/service/decision"
)

// mcpCommand serves assistants on this machine.
type mcpCommand struct {
	serverFlags `embed:"" group:"Answers:"`
	hubFlag     `embed:"" group:"Answers:"`
	Decisions   string `setting:"VRAMPLAN_DECISIONS" placeholder:"FILE" help:"Append every decision of the tool check to this file as a line of JSON; syslog sends it there."`
}

// Run speaks the protocol over standard input and output until the assistant closes them.
func (c *mcpCommand) Run(ctx context.Context, t *terminal) error {
	if err := c.locally(c.Server); err != nil {
		return err
	}
	on, err := c.backend(t)
	if err != nil {
		return err
	}
	server := assistant.New(assistant.Options{Version: buildVersion(),
		Ask: func(ctx context.Context, method, path string, body []byte) ([]byte, error) {
			r := apiRequest{method: method, path: path}
			if body != nil {
				r.body = bytes.NewReader(body)
			}
			answer, err := on.send(ctx, r)
			if refused, ok := asProblem(err); ok {
				return nil, &refused.Problem
			}
			return answer, err
		},
		Record: func(_ context.Context, d *decision.Record) {
			recorder := checkCommand{decisionFlags: decisionFlags{Decisions: c.Decisions, Hook: d.Hook}}
			d.User = recorder.newRecord(origin{}).User
			recorder.write(t, d)
		}})
	err = server.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(t.stdin), Writer: unclosed{t.stdout},
		MaxLineLength: maxDocumentBytes})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("the assistant's connection: %w", err)
	}
	return nil
}

// unclosed is a writer that belongs to another.
type unclosed struct{ io.Writer }

// Close implements io.Closer.
func (unclosed) Close() error { return nil }
