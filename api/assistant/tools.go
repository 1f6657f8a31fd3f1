package assistant

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/decision"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// tool is one of what assistants may call.
type tool struct {
	name, title, description string
	input                    object
	output                   any
	answer                   func(context.Context, Options, json.RawMessage) (answer, error)
}

// described is a tool as the protocol lists it. None changes anything, and the same question has the same answer.
func (t tool) described() *mcp.Tool {
	closed := false
	return &mcp.Tool{Name: t.name, Title: t.title, Description: t.description, InputSchema: t.input,
		OutputSchema: t.output,
		Annotations: &mcp.ToolAnnotations{Title: t.title, ReadOnlyHint: true, IdempotentHint: true,
			OpenWorldHint: &closed}}
}

// jobDepth is how many levels of a job its schema has: the job, its model and training, their fields.
const jobDepth = 2

// tools is the table of tools; it is made once, since schemas take a while to put together.
var tools = once(func() []tool {
	job := func(about string) object {
		s := schemaOf("Job", jobDepth)
		s["description"] = about
		return s
	}
	short := func(about string) object {
		return object{"type": "object", "description": about}
	}
	whole := object{"type": "boolean", "description": "Answer with all that the API says, not in short"}
	plan := schemaOf("PlanRequest", 1)["properties"].(object)
	read := schemaOf("ReadRequest", 1)["properties"].(object)
	words := func(about string) object { return object{"type": "string", "description": about} }
	return []tool{
		{name: "estimate", title: "Estimate a job's GPU memory", description: "How many bytes of GPU memory a training job takes, " +
			"what holds them, on which cards it fits and, where it does not, the first ways out. Begin here.",
			input:  inputs([]string{"job"}, object{"job": job("The job document"), "whole": whole}),
			output: outputOf[Verdict](), answer: estimate},
		{name: "plan", title: "Plan what makes a job fit", description: "Pairs of micro-batch and accumulation that reach an effective " +
			"batch on a card, and ranked ways out with their settings; with cluster, layouts over several GPUs. The job is as " +
			"estimate takes it, and may lack micro_batch.",
			input: inputs([]string{"job"}, object{"job": short("The job document, as estimate takes it"),
				"effective_batch": plan["effective_batch"], "cluster": schemaOf("Cluster", 1), "whole": whole}),
			output: outputOf[Verdict](), answer: makePlan},
		{name: "check", title: "Decide whether a job may start", description: "The decision that a scheduler's hook makes about a job, " +
			"and what to change where it is refused. It is recorded as other decisions are. The job is as estimate takes it.",
			input:  inputs([]string{"job"}, object{"job": short("The job document, as estimate takes it"), "whole": whole}),
			output: outputOf[Verdict](), answer: check},
		{name: "compare", title: "Compare two jobs", description: "Why two jobs take different amounts of memory: what each difference " +
			"between them moves. Jobs are as estimate takes them.",
			input: inputs([]string{"job", "other"}, object{"job": short("The job document"), "other": short("The job that it is compared with"),
				"whole": whole}),
			output: outputOf[Difference](), answer: compareJobs},
		{name: "diagnose", title: "Explain an out-of-memory error", description: "What an out-of-memory message means: what asked for the " +
			"memory, how sure that is, what helps and what does not. With the job that ran, its tensors are named.",
			input: inputs([]string{"text"}, object{"text": words("The message with its traceback, a log, memory_summary() or nvidia-smi's table"),
				"job": short("The job document of what ran, as estimate takes it"), "whole": whole}),
			output: outputOf[Explanation](), answer: diagnose},
		{name: "read", title: "Read a trainer's files", description: "Turns a command line, a batch script or a configuration of a " +
			"trainer (axolotl, LLaMA-Factory, TRL, torchtune and others), given as texts, into job documents, with what is assumed " +
			"and what no file says.",
			input: inputs([]string{}, object{"files": read["files"], "read": read["read"], "command": read["command"],
				"known": schemaOf("ReadKnown", 1), "whole": whole}),
			output: outputOf[Found](), answer: readFiles},
		{name: "find_gpu", title: "Find a card", description: "Cards of the catalog by part of a name, or by the memory they have.",
			input: inputs([]string{}, object{"query": words("Part of a name, such as 4090 or a100"), "vendor": words("NVIDIA, AMD, …"),
				"min_usable_bytes": object{"type": "integer", "minimum": 0, "description": "Only cards with so much usable memory"}}),
			output: outputOf[Cards](), answer: findGPU},
		{name: "find_model", title: "Find a model", description: "Models of the catalog by part of a name; a model that is not there is " +
			"given as model.hf_config, its config.json.",
			input:  inputs([]string{}, object{"query": words("Part of a name, such as qwen3 or llama-3.1-8b"), "family": words("The architecture, such as llama")}),
			output: outputOf[Models](), answer: findModel},
	}
})

// arguments reads what a tool was given, strictly. A job that an assistant wrote as a text is read as what it says.
func arguments[T any](given json.RawMessage) (T, error) {
	if len(given) == 0 {
		given = json.RawMessage("{}")
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(given, &fields) == nil {
		for _, name := range []string{"job", "other"} {
			if v := gjson.ParseBytes(fields[name]); v.Type == gjson.String && gjson.Valid(v.Str) {
				fields[name] = json.RawMessage(v.Str)
			}
		}
		if text, err := encode(fields); err == nil {
			given = text
		}
	}
	v, err := jobdoc.Read[T](given)
	if err != nil {
		return v, problem.From(err)
	}
	return v, nil
}

type jobArguments struct {
	Job   json.RawMessage `json:"job" validate:"required"`
	Whole bool            `json:"whole,omitempty"`
}

func estimate(ctx context.Context, o Options, given json.RawMessage) (answer, error) {
	a, err := arguments[jobArguments](given)
	if err != nil {
		return nil, err
	}
	v, _, err := judged(ctx, o, a)
	return v, err
}

// judged estimates a job and, where it does not surely fit, looks for the first ways out.
func judged(ctx context.Context, o Options, a jobArguments) (*Verdict, *estimator.Result, error) {
	result, text, err := ask[estimator.Result](ctx, o, "POST", "/v1/estimate", a.Job)
	if err != nil {
		return nil, nil, err
	}
	v := new(Verdict)
	v.of(result)
	if a.Whole {
		v.Whole = text
	}
	if v.Verdict != estimator.Fits && v.Verdict != estimator.Unknown && v.Verdict != "" {
		if p, _, err := ask[planner.Plan](ctx, o, "POST", "/v1/plan?brief=true", a.Job); err == nil { // the verdict stands without
			v.WaysOut, v.SmallestGPUs = ways(p), p.SmallestGPUs
		}
	}
	return v, result, nil
}

func check(ctx context.Context, o Options, given json.RawMessage) (answer, error) {
	a, err := arguments[jobArguments](given)
	if err != nil {
		return nil, err
	}
	record := decision.Record{ID: decision.NewID(), Time: time.Now().UTC(), Hook: "mcp", Mode: decision.Audit, Action: "allow",
		Verdict: decision.NoVerdict}
	record.SetJob(a.Job)
	v, result, err := judged(ctx, o, a)
	switch {
	case err != nil:
		record.Reason = inWords(err)
	case len(result.GPUs) == 0:
		record.Reason, v.Decision = "the job names no card", "allow"
	default:
		record.SetResult(result, decision.Best(result.GPUs))
		if v.Decision = "allow"; v.Verdict == estimator.DoesNotFit {
			v.Decision = "refuse"
		}
	}
	if o.Record != nil {
		o.Record(ctx, &record)
	}
	return v, err
}

type planArguments struct {
	Job            json.RawMessage `json:"job" validate:"required"`
	EffectiveBatch int64           `json:"effective_batch,omitempty"`
	Cluster        *jobdoc.Cluster `json:"cluster,omitempty"`
	Whole          bool            `json:"whole,omitempty"`
}

func makePlan(ctx context.Context, o Options, given json.RawMessage) (answer, error) {
	a, err := arguments[planArguments](given)
	if err != nil {
		return nil, err
	}
	var request map[string]json.RawMessage
	if json.Unmarshal(a.Job, &request) != nil || request == nil {
		return nil, problem.New(problem.InvalidDocument, "job is no object; accepted: a job document.")
	}
	if a.EffectiveBatch != 0 {
		request["effective_batch"] = json.RawMessage(strconv.FormatInt(a.EffectiveBatch, 10))
	}
	if a.Cluster != nil {
		if request["cluster"], err = encode(a.Cluster); err != nil {
			return nil, err
		}
	}
	path := "/v1/plan?brief=true"
	if a.Whole {
		path = "/v1/plan"
	}
	p, text, err := post[planner.Plan](ctx, o, path, request)
	if err != nil {
		return nil, err
	}
	v := ofPlan(p)
	if a.Whole {
		v.Whole = text
	}
	return v, nil
}

type comparisonArguments struct {
	Job   json.RawMessage `json:"job" validate:"required"`
	Other json.RawMessage `json:"other" validate:"required"`
	Whole bool            `json:"whole,omitempty"`
}

type diagnosisArguments struct {
	Text  string          `json:"text" validate:"required"`
	Job   json.RawMessage `json:"job,omitempty"`
	Whole bool            `json:"whole,omitempty"`
}

type readingArguments struct {
	jobdoc.Reading
	Whole bool `json:"whole,omitempty"`
}

type gpuArguments struct {
	Query          string `json:"query,omitempty" validate:"omitempty,max=200"`
	Vendor         string `json:"vendor,omitempty" validate:"omitempty,max=200"`
	MinUsableBytes int64  `json:"min_usable_bytes,omitempty" validate:"gte=0,lte=9007199254740991"`
}

type modelArguments struct {
	Query  string `json:"query,omitempty" validate:"omitempty,max=200"`
	Family string `json:"family,omitempty" validate:"omitempty,max=200"`
}

// mostFound is how many entries of the catalog an answer has.
const mostFound = 12

// listed is a path of the catalog with the parameters that are given.
func listed(path string, parameters map[string]string) string {
	q := url.Values{"page_size": {strconv.Itoa(mostFound)}}
	for name, value := range parameters {
		if value != "" {
			q.Set(name, value)
		}
	}
	return path + "?" + q.Encode()
}
