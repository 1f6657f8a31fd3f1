package assistant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/service/decision"
)

// MostCharacters is the longest answer of a tool that was not asked for the whole, text and structured content
// together.
const MostCharacters = 6000

// Options are what a server needs of its surroundings.
type Options struct {
	// Version is the program's.
	Version string
	// Ask asks the API; path has the query with it, and body is nil for a GET. The error is a *[problem.Problem] where
	// the API refuses.
	Ask func(ctx context.Context, method, path string, body []byte) ([]byte, error)
	// Record writes a decision of the tool check down; nil writes none.
	Record func(context.Context, *decision.Record)
}

// instructions are what an assistant is told of the server.
const instructions = "vramplan says how many bytes of GPU memory a training job takes, to the component, on which cards it " +
	"fits, and what makes it fit, by replaying an optimizer step as PyTorch allocates it. Ask it in place of rules of " +
	"thumb. A job is {\"model\": {\"preset\": NAME} or {\"hf_config\": CONFIG_JSON}, \"training\": {\"micro_batch\": N, " +
	"\"sequence_length\": N, …}, \"gpus\": [NAME]}; what is left out has the framework's defaults, and the answer says " +
	"what was assumed. Begin with estimate; read turns a trainer's files or command line into a job; diagnose explains " +
	"an out-of-memory error. Quote sizes as they are given."

// New makes a server with every tool and prompt.
func New(o Options) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "vramplan", Title: "vramplan", Version: o.Version},
		&mcp.ServerOptions{Instructions: instructions, Capabilities: &mcp.ServerCapabilities{
			Tools: &mcp.ToolCapabilities{}, Prompts: &mcp.PromptCapabilities{}}})
	for _, t := range tools() {
		s.AddTool(t.described(), func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return o.call(ctx, t, r.Params.Arguments)
		})
	}
	addPrompts(s)
	return s
}

// call answers one call of a tool. What is wrong with it is told to the assistant, which may mend it.
func (o Options) call(ctx context.Context, t tool, arguments json.RawMessage) (*mcp.CallToolResult, error) {
	a, err := t.answer(ctx, o, arguments)
	if err != nil {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: inWords(err)}}}, nil
	}
	text, structured, err := withinLimit(a)
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: structured}, nil
}

// answer is what a tool says: in words, and as an object of its output schema.
type answer interface {
	words() string
	// shorten leaves out what matters least; false where nothing can be left out any more.
	shorten() bool
	// complete says that it was asked for the whole.
	complete() bool
}

// withinLimit writes an answer down, and leaves out what matters least until it is short enough.
func withinLimit(a answer) (text string, structured json.RawMessage, err error) {
	for {
		text = a.words()
		if structured, err = encode(a); err != nil {
			return "", nil, err
		}
		if a.complete() || len([]rune(text))+len([]rune(string(structured))) <= MostCharacters || !a.shorten() {
			return text, structured, nil
		}
	}
}

// encode is JSON that leaves <, > and & as they are.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode an answer: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// inWords is an error for an assistant: all that is wrong, one a line.
func inWords(err error) string {
	p, ok := errors.AsType[*problem.Problem](err)
	if !ok {
		return "No answer: " + err.Error()
	}
	const most = 20
	var b strings.Builder
	b.WriteString(p.Title)
	if len(p.Errors) == 0 {
		b.WriteString(": " + p.Detail)
	}
	for _, e := range p.Errors[:min(most, len(p.Errors))] {
		fmt.Fprintf(&b, "\n%s: %s", e.Pointer, clip(e.Detail, 500))
	}
	if p.RetryAfterSeconds > 0 {
		fmt.Fprintf(&b, "\nAsk again in %d s.", p.RetryAfterSeconds)
	}
	return clip(b.String(), MostCharacters)
}

// clip shortens a text to so many characters.
func clip(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// post asks the API about a document and reads the answer, which it gives back as it came, too.
func post[T any](ctx context.Context, o Options, path string, document any) (*T, json.RawMessage, error) {
	body, err := encode(document)
	if err != nil {
		return nil, nil, err
	}
	return ask[T](ctx, o, "POST", path, body)
}

func ask[T any](ctx context.Context, o Options, method, path string, body []byte) (*T, json.RawMessage, error) {
	text, err := o.Ask(ctx, method, path, body)
	if err != nil {
		return nil, nil, err
	}
	v := new(T)
	if err := json.Unmarshal(text, v); err != nil {
		return nil, nil, fmt.Errorf("the API's answer to %s: %w", path, err)
	}
	return v, bytes.TrimSpace(text), nil
}

// Single says whether a body is one message that ends with its answer. Batches are no part of the protocol since
// revision 2025-06-18, and would be many questions counted as one; a subscription would hold a stream open.
func Single(body []byte) error {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 || trimmed[0] != '{' {
		return problem.New(problem.InvalidDocument, "The body is not one JSON-RPC message, an object; batches are not taken.")
	}
	var message struct {
		Method string `json:"method"`
	}
	if err := json.Unmarshal(trimmed, &message); err != nil {
		return problem.New(problem.InvalidDocument, "The body is not JSON: %v.", err)
	}
	if strings.HasPrefix(message.Method, "subscriptions/") {
		return problem.New(problem.InvalidDocument, "Nothing here changes while a client waits: %s is not taken.", message.Method)
	}
	return nil
}

// once makes something when it is first asked for: a command that serves nobody pays nothing for it.
func once[T any](do func() T) func() T { return sync.OnceValue(do) }
