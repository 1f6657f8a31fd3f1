package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/api/assistant"
	"github.com/vramplan/vramplan/service/workplace"
)

// assistantOf connects the SDK's own client to a service over HTTP.
func assistantOf(t *testing.T, a http.Handler) *mcp.ClientSession {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: server.URL + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func tool(t *testing.T, s *mcp.ClientSession, name, arguments string) (*mcp.CallToolResult, string) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(arguments)})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(r.Content) != 1 {
		t.Fatalf("%s has %d contents", name, len(r.Content))
	}
	return r, r.Content[0].(*mcp.TextContent).Text
}

// oom is a message of the story's job on its card.
const oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.07 GiB. GPU 0 has a total capacity of 11.71 GiB of " +
	"which 1.20 GiB is free. Of the allocated memory 9.50 GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch " +
	"but unallocated."

// Every tool answers in its own schema and within its characters, by the SDK's client over HTTP.
func TestToolsAnswer(t *testing.T) {
	s := assistantOf(t, newAPI(api.Options{}))
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]*jsonschema.Schema{}
	for _, x := range tools.Tools {
		if x.InputSchema == nil || x.OutputSchema == nil || x.Description == "" || !x.Annotations.ReadOnlyHint {
			t.Errorf("%s lacks a schema or a description", x.Name)
		}
		schemas[x.Name] = compiled(t, x.Name, x.OutputSchema)
		compiled(t, x.Name+" in", x.InputSchema)
	}
	qlora := `{"model": {"preset": "meta-llama/Llama-3.1-8B"}, "training": {"micro_batch": 4, "sequence_length": 2048}, "gpus": ["4090"]}`
	for _, c := range []struct {
		tool, arguments string
		says            []string
	}{
		{"estimate", `{"job": ` + story + `}`, []string{"Does not fit on rtx-4070: it needs 18.62 GiB of 11.71 GiB",
			"logits and loss 9.21 GiB", "Reduce the micro-batch only: 11.45 GiB", "Assumed: micro-batch 16", "Doubts: "}},
		{"estimate", `{"job": ` + qlora + `}`, []string{"Does not fit on rtx-4090", "LoRA"}},
		{"estimate", `{"job": {"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}, "gpus": ["*"]}}`, []string{"It fits on"}},
		{"estimate", `{"job": {"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}}}`, []string{"Name a card"}},
		{"plan", `{"job": ` + story + `}`, []string{"Today's 16 × 32 takes 18.62 GiB", "8 × 64 reaches an effective batch of 512"}},
		{"plan", `{"job": ` + qlora + `, "effective_batch": 16}`, []string{"No pair reaches an effective batch of 16", "QLoRA"}},
		{"plan", `{"job": {"model": {"preset": "meta-llama/Llama-3.1-8B"}, "training": {"sequence_length": 4096}, "gpus": ["h100"]},
			"effective_batch": 64, "cluster": {"gpus": 8}}`, []string{"8 GPUs of h100-sxm5", "layouts that fit are ranked", "FSDP2"}},
		{"check", `{"job": ` + story + `}`, []string{"A scheduler's hook would refuse it"}},
		{"compare", `{"job": ` + story + `, "other": ` + strings.Replace(story, `"micro_batch": 16`, `"micro_batch": 8`, 1) + `}`,
			[]string{"18.62 GiB", "11.45 GiB", "micro_batch 16 → 8"}},
		{"diagnose", `{"text": "` + oom + `", "job": ` + story + `}`, []string{"logits", "What helps:"}},
		{"diagnose", `{"text": "` + oom + `"}`, []string{"certainty"}},
		{"read", `{"command": "torchrun --nproc_per_node=8 train.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --bf16"}`,
			[]string{"One job is read"}},
		{"find_gpu", `{"query": "4090"}`, []string{"rtx-4090: GeForce RTX 4090, 23.52 GiB usable"}},
		{"find_gpu", `{}`, []string{"first 12 cards of more"}},
		{"find_model", `{"query": "qwen3-8b"}`, []string{"Qwen/Qwen3-8B"}},
		{"find_model", `{"query": "no such model"}`, []string{"The catalog has no such model"}},
	} {
		r, text := tool(t, s, c.tool, c.arguments)
		if r.IsError {
			t.Errorf("%s: %s", c.tool, text)
			continue
		}
		structured, err := json.Marshal(r.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		if n := len([]rune(text)) + len([]rune(string(structured))); n > assistant.MostCharacters {
			t.Errorf("%s answers with %d characters", c.tool, n)
		}
		for _, part := range c.says {
			if !strings.Contains(text, part) {
				t.Errorf("%s does not say %q:\n%s", c.tool, part, text)
			}
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(structured))
		if err != nil {
			t.Fatal(err)
		}
		if err := schemas[c.tool].Validate(v); err != nil {
			t.Errorf("%s: %v\n%s", c.tool, err, structured)
		}
	}
}

func compiled(t *testing.T, name string, schema any) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// A tool that is asked for the whole answers with what its route says, to the byte of every figure.
func TestWholeAnswersAreTheRoutes(t *testing.T) {
	a := newAPI(api.Options{})
	s := assistantOf(t, a)
	for _, c := range []struct{ tool, arguments, path, body string }{
		{"estimate", `{"whole": true, "job": ` + story + `}`, "/v1/estimate", story},
		{"plan", `{"whole": true, "job": ` + story + `}`, "/v1/plan", story},
	} {
		r, _ := tool(t, s, c.tool, c.arguments)
		var got struct{ Whole any }
		text, err := json.Marshal(r.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := json.Unmarshal([]byte(read(t, do(a, http.MethodPost, c.path, "application/json", c.body))), &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if g, w := sorted(t, got.Whole), sorted(t, want); g != w {
			t.Errorf("%s answers otherwise than %s:\n%s\n%s", c.tool, c.path, g, w)
		}
	}
}

func sorted(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What is wrong with a question is told to the assistant, with the fields and what is accepted.
func TestToolsSayWhatIsWrong(t *testing.T) {
	s := assistantOf(t, newAPI(api.Options{}))
	for arguments, part := range map[string]string{
		`{}`: "/job: is required",
		`{"job": {"model": {"preset": "gpt2"}, "training": {"micro_batch_size": 1}}}`:    "did you mean micro_batch",
		`{"job": {"model": {"preset": "gpt2"}, "training": {"micro_batch": -1}}}`:        "/training/micro_batch",
		`{"job": {"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}}, "x": 1}`: "/x",
		`{"job": 7}`: "job",
	} {
		r, text := tool(t, s, "estimate", arguments)
		if !r.IsError || !strings.Contains(text, part) {
			t.Errorf("%s: error %v, %q", arguments, r.IsError, text)
		}
	}
	// An assistant that writes the job as a text is understood.
	job, err := json.Marshal(story)
	if err != nil {
		t.Fatal(err)
	}
	if r, text := tool(t, s, "estimate", `{"job": `+string(job)+`}`); r.IsError || !strings.Contains(text, "18.62 GiB") {
		t.Errorf("a job as a text: %s", text)
	}
}

// No tool reads a file of the host, whatever names it is given.
func TestToolsReadNoFiles(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "train.yaml")
	if err := os.WriteFile(secret, []byte("base_model: NousResearch/secret-model\nmicro_batch_size: 3\nsequence_len: 512\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := assistantOf(t, newAPI(api.Options{}))
	for _, arguments := range []string{
		`{"command": "axolotl train ` + secret + `"}`,
		`{"command": "bash -c 'cat ` + secret + `'", "read": ["` + secret + `"]}`,
		`{"files": {"a.sh": "source ` + secret + `\naxolotl train ` + secret + `"}}`,
		`{"files": {"../` + filepath.Base(secret) + `": ""}, "read": ["` + secret + `"]}`,
	} {
		if _, text := tool(t, s, "read", arguments); strings.Contains(text, "secret-model") {
			t.Errorf("%s reads %s:\n%s", arguments, secret, text)
		}
	}
}

// The decision of check is in the log, with the job, as a hook's is.
func TestCheckIsRecorded(t *testing.T) {
	var log bytes.Buffer
	logger := zerolog.New(&log)
	s := assistantOf(t, newAPI(api.Options{Logger: &logger}))
	tool(t, s, "check", `{"job": `+story+`}`)
	for line := range strings.Lines(log.String()) {
		var entry struct {
			Decision struct {
				Hook, Action, Verdict string
				Job                   json.RawMessage
			}
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Decision.Hook == "mcp" {
			if entry.Decision.Verdict != "does_not_fit" || entry.Decision.Action != "allow" || len(entry.Decision.Job) == 0 {
				t.Errorf("the record says %s", line)
			}
			return
		}
	}
	t.Errorf("no record in %s", log.String())
}

// An assistant's questions are counted as its client's, each once, and its answers are plain JSON.
func TestAssistantsHaveTheLimitsOfOthers(t *testing.T) {
	a := newAPI(api.Options{}, workplace.Limits{RatePerSecond: 0.01})
	res := say(a, `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "estimate", "arguments": {"job": `+
		story+`}}}`)
	if body := read(t, res); res.StatusCode != http.StatusOK || !strings.Contains(body, "18.62 GiB") {
		t.Errorf("the first question: %d %s", res.StatusCode, body)
	}
	if kind, session := res.Header.Get("Content-Type"), res.Header.Get("Mcp-Session-Id"); kind != "application/json" ||
		session != "" {
		t.Errorf("%s, session %q", kind, session)
	}
	if res := say(a, `{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}`); res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one more than the rate: %d", res.StatusCode)
	}
}

// say sends a message as clients of the protocol do.
func say(h http.Handler, message string, headers ...string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(message))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// What would hold a stream open, count as one and ask a thousand times, or is no message, is refused as a problem.
func TestOneMessageARequest(t *testing.T) {
	a := newAPI(api.Options{})
	const list = `{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`
	for _, c := range []struct {
		message string
		headers []string
		status  int
	}{
		{message: list, status: 200},
		{message: `{"jsonrpc": "2.0", "method": "notifications/initialized"}`, status: 202},
		{message: "[" + list + "," + list + "]", status: 400},
		{message: `{"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}`, headers: []string{"MCP-Protocol-Version", "2026-07-28"}, status: 400},
		{message: `{"jsonrpc"`, status: 400},
		{message: ``, status: 400},
		{message: list, headers: []string{"Content-Type", "text/plain"}, status: 415},
		{message: list, headers: []string{"Accept", "text/html"}, status: 400},
		{message: list, headers: []string{"MCP-Protocol-Version", "1999-01-01"}, status: 400},
		{message: `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"x": "` + strings.Repeat("x", 1<<20) + `"}}`, status: 413},
	} {
		res := say(a, c.message, c.headers...)
		body := read(t, res)
		if res.StatusCode != c.status {
			t.Errorf("%.80s %q: %d, want %d: %s", c.message, c.headers, res.StatusCode, c.status, body)
		}
		if kind := res.Header.Get("Content-Type"); c.status >= 400 && kind != "application/problem+json" {
			t.Errorf("%.80s: %s", c.message, kind)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if res := do(a, method, "/mcp", "", ""); res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %d, Allow %q", method, res.StatusCode, res.Header.Get("Allow"))
		}
	}
}

// A client that goes ends what its question asked, and an old one's message without a version is understood.
func TestAssistantsMayGo(t *testing.T) {
	a := newAPI(api.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(
		`{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "plan", "arguments": {"job": `+story+`}}}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	if strings.Contains(w.Body.String(), "11.45 GiB") {
		t.Errorf("a question nobody waits for is answered: %d %s", w.Code, w.Body)
	}
}

// The prompts are there, and lead to the tools by their names.
func TestPrompts(t *testing.T) {
	s := assistantOf(t, newAPI(api.Options{}))
	prompts, err := s.ListPrompts(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range prompts.Prompts {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	if want := []string{"explain_error", "will_it_fit"}; !slices.Equal(names, want) {
		t.Errorf("prompts %q, want %q", names, want)
	}
	for name, c := range map[string]struct {
		arguments map[string]string
		parts     []string
	}{
		"will_it_fit":   {map[string]string{"model": "gpt2", "gpu": "4090"}, []string{"gpt2", "4090", "estimate", "find_model"}},
		"explain_error": {map[string]string{"error": oom}, []string{"3.07 GiB", "diagnose"}},
	} {
		p, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: name, Arguments: c.arguments})
		if err != nil {
			t.Fatal(err)
		}
		text := p.Messages[0].Content.(*mcp.TextContent).Text
		for _, part := range c.parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s lacks %q: %s", name, part, text)
			}
		}
	}
}

// The guide names every route and every field of a job that the schemas show, and is short.
func TestGuide(t *testing.T) {
	res := do(newAPI(api.Options{}), http.MethodGet, "/llms.txt", "", "")
	text := read(t, res)
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || kind != "text/plain; charset=utf-8" {
		t.Fatalf("%d %s", res.StatusCode, kind)
	}
	if n := len(strings.Fields(text)); n > assistant.MostGuideWords {
		t.Errorf("%d words", n)
	}
	for _, r := range api.Routes() {
		if !strings.Contains(text, "`"+r.Method+" "+r.Path+"`") {
			t.Errorf("%s %s is not in it", r.Method, r.Path)
		}
	}
	for _, field := range []string{"model.preset", "model.hf_config", "training.micro_batch", "training.lora", "gpus", "reserve_bytes"} {
		if !strings.Contains(text, "`"+field+"`") {
			t.Errorf("%s is not in it", field)
		}
	}
}

// The founding stories as conversations: what is asked in the document, and the answer that stands below it.
func TestConversationsAreTrue(t *testing.T) {
	const name = "../docs/lab/stories.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, conversations, found := strings.Cut(string(text), "## As conversations\n")
	if !found {
		t.Fatal("no conversations")
	}
	s := assistantOf(t, newAPI(api.Options{}))
	asked := 0
	now := regexp.MustCompile("(?s)```json\n(.*?)\n```\n\n```\n(.*?)\n```").ReplaceAllStringFunc(conversations, func(both string) string {
		question, _, _ := strings.Cut(strings.TrimPrefix(both, "```json\n"), "\n```")
		_, answer := tool(t, s, "estimate", question)
		asked++
		return "```json\n" + question + "\n```\n\n```\n" + answer + "\n```"
	})
	if asked != 2 {
		t.Errorf("%d questions", asked)
	}
	if *update {
		if err := os.WriteFile(name, []byte(before+"## As conversations\n"+now), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(conversations, now); diff != "" {
		t.Errorf("%s (-says +is), -update writes it:\n%s", name, diff)
	}
	// The compiled run of the second story, as it stands below it.
	if _, text := tool(t, s, "estimate", `{"job": {"model": {"nanogpt": {"n_layer": 6, "n_head": 6, "n_embd": 384, "block_size": 512,
		"dropout": 0.2}}, "gpus": ["rtx-4070"], "training": {"micro_batch": 16, "gradient_accumulation": 4, "compile": true,
		"precision": "amp-fp16", "optimizer": "adamw_torch_fused", "versions": {"torch": "2.9.1"}}}}`); !strings.Contains(text,
		"it needs 4.44 GiB") {
		t.Error(text)
	}
}

// Whatever is asked, an answer in short stays within its characters and its schema.
func TestLongAnswersAreShortened(t *testing.T) {
	s := assistantOf(t, newAPI(api.Options{}))
	long := strings.Repeat("long ", 40)
	config := `{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
		"intermediate_size": 11008, "vocab_size": 32000, "x": "` + strings.Repeat("x", 20000) + `"}`
	var files, failures []string
	for i := range 30 {
		files = append(files, fmt.Sprintf(`"%d-%s.sh": "#!/bin/bash\npython run_clm.py --model_name_or_path gpt2 --output_dir %[2]s `+
			`--per_device_train_batch_size %[1]d --unknown_%[2]s 7 --bf16\n"`, i+1, strings.ReplaceAll(long, " ", "_")))
		failures = append(failures, fmt.Sprintf("%s%d %s", "rank ", i, oom))
	}
	text, err := json.Marshal(strings.Join(failures, "\n") + long)
	if err != nil {
		t.Fatal(err)
	}
	job := `{"model": {"hf_config": ` + config + `}, "training": {"micro_batch": 8, "sequence_length": 4096}, "gpus": ["rtx-4090"]}`
	for _, c := range [][2]string{
		{"estimate", `{"job": ` + job + `}`},
		{"estimate", `{"job": ` + strings.Replace(job, `["rtx-4090"]`, `["*"]`, 1) + `}`},
		{"plan", `{"job": ` + job + `, "effective_batch": 5040}`},
		{"check", `{"job": ` + job + `}`},
		{"compare", `{"job": ` + job + `, "other": {"model": {"preset": "gpt2"}, "training": {"micro_batch": 1, "precision": "fp32",
			"optimizer": "sgd", "attention": "eager", "gradient_checkpointing": "full", "compile": true, "dropout": 0.1,
			"loss": "chunked", "framework": "torchtune", "clip_grad_norm": false}, "gpus": ["t4"], "reserve_bytes": 900000000}}`},
		{"diagnose", `{"text": ` + string(text) + `}`},
		{"diagnose", `{"text": ` + string(text) + `, "job": ` + story + `}`},
		{"read", `{"files": {` + strings.Join(files, ", ") + `}, "known": {"gpus": 1}}`},
		{"find_model", `{}`},
		{"find_gpu", `{"query": "` + strings.Repeat("q", 200) + `"}`},
		{"estimate", `{"` + strings.Repeat("k", 30000) + `": 1, "job": {"model": {"preset": "` + strings.Repeat("p", 150) + `"}, "training": {}}}`},
	} {
		r, text := tool(t, s, c[0], c[1])
		structured, err := json.Marshal(r.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		if r.StructuredContent == nil {
			structured = nil
		}
		if n := len([]rune(text)) + len([]rune(string(structured))); n > assistant.MostCharacters || len(text) < 20 {
			t.Errorf("%s %.60s answers with %d characters: %.300s", c[0], c[1], n, text)
		}
	}
}
