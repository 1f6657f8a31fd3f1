package assistant

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/compare"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/readers"
)

// ofPlan is a plan in short.
func ofPlan(p *planner.Plan) *Verdict {
	v := &Verdict{Model: p.Model.Name, Parameters: p.Model.Parameters, EffectiveBatch: p.EffectiveBatch,
		Recommended: p.Recommended,
		Largest:     p.LargestMicroBatch, SmallestGPUs: p.SmallestGPUs, WaysOut: ways(p), NeedsBytes: p.FloorBytes,
		AtLeastOnly: p.FloorAtLeast}
	for _, n := range p.Notes {
		if n.Code != "dominated" && n.Code != "step-time-model" && len(v.Notes) < mostNotes {
			v.Notes = append(v.Notes, n.Text)
		}
	}
	on := "the card, which the job does not name"
	if p.GPU != "" {
		on = fmt.Sprintf("%s, which has %s", p.GPU, size(p.UsableBytes))
	}
	if t := p.Today; t != nil {
		v.Verdict, v.NeedsBytes, v.AtLeastOnly, v.LowBytes, v.HighBytes = t.Verdict, t.DeviceBytes, t.AtLeast,
			t.LowBytes, t.HighBytes
		v.Says = fmt.Sprintf("Today's %d × %d takes %s and %s on %s.", t.MicroBatch, t.GradientAccumulation,
			atLeast(t.DeviceBytes, t.AtLeast), plain(string(t.Verdict)), on)
	} else {
		v.Says = fmt.Sprintf("At a micro-batch of one the job takes %s on %s.", atLeast(p.FloorBytes, p.FloorAtLeast), on)
	}
	if l := p.Layouts; l != nil {
		v.Says = fmt.Sprintf("%d GPUs of %s: %d layouts that fit are ranked.", l.GPUs, on, len(l.Ranked))
		for _, x := range l.Ranked[:min(mostWays, len(l.Ranked))] {
			v.WaysOut = append(v.WaysOut, WayOut{Title: fmt.Sprintf("%s with %s, checkpointing %s, %d × %d", x.Name, x.Framework,
				x.GradientCheckpointing, x.MicroBatch, x.GradientAccumulation), Verdict: estimator.Fits,
				NeedsBytes: x.DeviceBytes,
				Changes:    x.Changes})
		}
		return v
	}
	switch {
	case p.Recommended != nil:
		for _, x := range p.Pairs {
			if x.MicroBatch == p.Recommended.MicroBatch &&
				x.GradientAccumulation == p.Recommended.GradientAccumulation {
				v.Says += fmt.Sprintf(" %d × %d reaches an effective batch of %d with %s.", x.MicroBatch, x.GradientAccumulation,
					p.EffectiveBatch, size(x.DeviceBytes))
			}
		}
	case p.GPU != "":
		v.Says += fmt.Sprintf(" No pair reaches an effective batch of %d on it as the job is.", p.EffectiveBatch)
	}
	if f := p.FewestGPUs; f != nil {
		v.Says += fmt.Sprintf(" It trains on %d of the card, dealt out, at %d × %d.", f.GPUs, f.MicroBatch, f.GradientAccumulation)
	}
	return v
}

// Difference is why two jobs take different amounts, in short.
type Difference struct {
	Says            string          `json:"says"`
	JobBytes        int64           `json:"job_bytes"`
	OtherBytes      int64           `json:"other_bytes"`
	DifferenceBytes int64           `json:"difference_bytes" jsonschema:"other less job"`
	Causes          []string        `json:"causes" jsonschema:"what each difference moves, on top of those before it"`
	WithoutEffect   int             `json:"without_effect" jsonschema:"differences that move no byte"`
	Whole           json.RawMessage `json:"whole,omitempty"`
}

func compareJobs(ctx context.Context, o Options, given json.RawMessage) (answer, error) {
	a, err := arguments[comparisonArguments](given)
	if err != nil {
		return nil, err
	}
	c, text, err := post[compare.Comparison](ctx, o, "/v1/compare", map[string]json.RawMessage{"a": a.Job, "b": a.Other})
	if err != nil {
		return nil, err
	}
	d := &Difference{JobBytes: c.A.Peak.DeviceBytes, OtherBytes: c.B.Peak.DeviceBytes,
		DifferenceBytes: c.DifferenceBytes,
		Causes:          []string{}, WithoutEffect: len(c.WithoutEffect)}
	d.Says = fmt.Sprintf("The job takes %s and the other %s: %s more.", size(d.JobBytes), size(d.OtherBytes), size(d.DifferenceBytes))
	if d.DifferenceBytes < 0 {
		d.Says = fmt.Sprintf("The job takes %s and the other %s: %s less.", size(d.JobBytes), size(d.OtherBytes), size(-d.DifferenceBytes))
	}
	for _, cause := range c.Causes {
		d.Causes = append(d.Causes, cause.Text)
	}
	if a.Whole {
		d.Whole = text
	}
	return d, nil
}

func (d *Difference) complete() bool { return d.Whole != nil }

func (d *Difference) words() string { return listing(d.Says, d.Causes) }

func (d *Difference) shorten() bool { return shortenList(&d.Causes) }

// Explanation is what an out-of-memory message means, in short.
type Explanation struct {
	Says      string `json:"says"`
	Class     string `json:"class"`
	Certainty string `json:"certainty" jsonschema:"exact, class-only, likely or unknown"`
	// Tensors are those that may have asked.
	Tensors   []string        `json:"tensors,omitempty"`
	Evidence  []string        `json:"evidence,omitempty"`
	Helps     []string        `json:"helps,omitempty"`
	Useless   []string        `json:"will_not_help,omitempty"`
	Questions []string        `json:"questions,omitempty" jsonschema:"what would tell more"`
	WaysOut   []WayOut        `json:"ways_out,omitempty"`
	Failures  int             `json:"failures" jsonschema:"how many the text has; the first is explained"`
	Whole     json.RawMessage `json:"whole,omitempty"`
}

func diagnose(ctx context.Context, o Options, given json.RawMessage) (answer, error) {
	a, err := arguments[diagnosisArguments](given)
	if err != nil {
		return nil, err
	}
	request := map[string]any{"text": a.Text}
	if len(a.Job) > 0 {
		request["job"] = a.Job
	}
	d, text, err := post[service.Diagnosis](ctx, o, "/v1/diagnose", request)
	if err != nil {
		return nil, err
	}
	x := &Explanation{Says: d.Summary, Class: string(d.Class), Certainty: string(d.Certainty), Failures: len(d.Causes)}
	if len(d.Causes) > 0 {
		c := d.Causes[0]
		x.Evidence = c.Evidence
		for _, t := range c.Candidates[:min(3, len(c.Candidates))] {
			words := fmt.Sprintf("%s, %s", t.What, size(t.Bytes))
			if t.How != "" {
				words += " (" + t.How + ")"
			}
			x.Tensors = append(x.Tensors, words)
		}
		for _, help := range c.Actions {
			x.Helps = append(x.Helps, help.Text)
		}
		for _, none := range c.Useless {
			x.Useless = append(x.Useless, none.Text)
		}
	}
	for _, q := range d.Questions {
		x.Questions = append(x.Questions, q.Ask)
	}
	if d.Plan != nil {
		x.WaysOut = ways(d.Plan)
	}
	if a.Whole {
		x.Whole = text
	}
	return x, nil
}

func (x *Explanation) complete() bool { return x.Whole != nil }

func (x *Explanation) words() string {
	said := x.Says + " (certainty: " + x.Certainty + ")"
	parts := []string{said}
	for _, list := range []struct {
		title string
		of    []string
	}{{"May have asked for it:", x.Tensors}, {"Read off:", x.Evidence}, {"What helps:", x.Helps}, {"What does not help:", x.Useless},
		{"Would tell more:", x.Questions}} {
		if len(list.of) > 0 {
			parts = append(parts, listing(list.title, list.of))
		}
	}
	if len(x.WaysOut) > 0 {
		parts = append(parts, strings.TrimSpace((&Verdict{WaysOut: x.WaysOut}).words()))
	}
	return strings.Join(parts, "\n\n")
}

func (x *Explanation) shorten() bool {
	if v := (Verdict{WaysOut: x.WaysOut}); len(x.WaysOut) > 1 && v.shorten() {
		x.WaysOut = v.WaysOut
		return true
	}
	return shortenList(&x.Evidence) || shortenList(&x.Questions) || shortenList(&x.Tensors) ||
		shortenList(&x.Useless) ||
		shortenList(&x.Helps)
}

// Found are the jobs that files describe, in short.
type Found struct {
	Says     string          `json:"says"`
	Jobs     []FoundJob      `json:"jobs"`
	Refusals []string        `json:"refusals,omitempty" jsonschema:"what is not answered, and why"`
	Whole    json.RawMessage `json:"whole,omitempty"`
}

// FoundJob is one of them.
type FoundJob struct {
	// Document is what estimate takes.
	Document    any      `json:"document" jsonschema:"the job document, as estimate takes it once the questions are answered"`
	Reader      string   `json:"reader"`
	Questions   []string `json:"questions,omitempty" jsonschema:"what no file says; answer in known.set, by the field"`
	Assumptions []string `json:"assumptions,omitempty"`
}

func readFiles(ctx context.Context, o Options, given json.RawMessage) (answer, error) {
	a, err := arguments[readingArguments](given)
	if err != nil {
		return nil, err
	}
	found, text, err := post[readers.Answer](ctx, o, "/v1/read", a.Reading)
	if err != nil {
		return nil, err
	}
	f := &Found{Jobs: []FoundJob{}}
	questions := 0
	for _, j := range found.Jobs {
		job := FoundJob{Reader: j.Reader}
		if err := json.Unmarshal(j.Document, &job.Document); err != nil {
			return nil, fmt.Errorf("a job document of the API: %w", err)
		}
		for _, q := range j.Questions {
			job.Questions = append(job.Questions, q.Pointer+": "+q.Ask)
		}
		for _, x := range j.Assumptions {
			job.Assumptions = append(job.Assumptions, x.Say)
		}
		questions += len(job.Questions)
		f.Jobs = append(f.Jobs, job)
	}
	for _, r := range found.Refusals {
		f.Refusals = append(f.Refusals, r.String())
	}
	f.Says = strconv.Itoa(len(f.Jobs)) + " of the jobs can be read"
	if len(f.Jobs) == 1 {
		f.Says = "One job is read"
	}
	switch questions {
	case 0:
		f.Says += ", and nothing is open."
	default:
		f.Says += fmt.Sprintf("; %d questions are open: answer them in known.set before estimate.", questions)
	}
	if a.Whole {
		f.Whole = text
	}
	return f, nil
}

func (f *Found) complete() bool { return f.Whole != nil }

func (f *Found) words() string {
	parts := []string{f.Says}
	for _, j := range f.Jobs {
		if len(j.Questions) > 0 {
			parts = append(parts, listing("Asked of the "+j.Reader+" job:", j.Questions))
		}
		if len(j.Assumptions) > 0 {
			parts = append(parts, listing("Assumed:", j.Assumptions))
		}
	}
	if len(f.Refusals) > 0 {
		parts = append(parts, listing("Not answered:", f.Refusals))
	}
	return strings.Join(parts, "\n\n")
}

func (f *Found) shorten() bool {
	for i := range f.Jobs {
		if shortenList(&f.Jobs[i].Assumptions) {
			return true
		}
	}
	if len(f.Refusals) > 1 && shortenList(&f.Refusals) {
		return true
	}
	if n := len(f.Jobs); n > 1 {
		f.Jobs = f.Jobs[:n-1]
		f.Says = clip(fmt.Sprintf("%s The answer has the first %d: ask for the whole.", strings.Split(f.Says, " The answer has")[0], n-1), 400)
		return true
	}
	for i := range f.Jobs {
		if f.Jobs[i].Document != nil {
			f.Jobs[i].Document = nil
			f.Says = clip(f.Says, 200) + " Its document is long: ask for the whole."
			return true
		}
		if shortenList(&f.Jobs[i].Questions) {
			return true
		}
	}
	return shortenList(&f.Refusals)
}

// Cards are entries of the catalog, in short.
type Cards struct {
	Says string `json:"says"`
	GPUs []Card `json:"gpus"`
}

// Card is one of them.
type Card struct {
	ID          string `json:"id" jsonschema:"what a job's gpus name"`
	Name        string `json:"name"`
	Vendor      string `json:"vendor,omitempty"`
	MemoryBytes int64  `json:"memory_bytes" jsonschema:"nvidia-smi's memory.total; 0 where unknown"`
	UsableBytes int64  `json:"usable_bytes" jsonschema:"what CUDA gets of it; 0 where unknown"`
}

func findGPU(ctx context.Context, o Options, given json.RawMessage) (answer, error) {
	a, err := arguments[gpuArguments](given)
	if err != nil {
		return nil, err
	}
	least := ""
	if a.MinUsableBytes > 0 {
		least = strconv.FormatInt(a.MinUsableBytes, 10)
	}
	list, _, err := ask[struct {
		GPUs []catalog.GPU `json:"gpus"`
		Next string        `json:"next_page_token"`
	}](ctx, o, "GET", listed("/v1/gpus", map[string]string{"q": a.Query, "vendor": a.Vendor, "min_usable_bytes": least}), nil)
	if err != nil {
		return nil, err
	}
	c := &Cards{GPUs: []Card{}, Says: found(len(list.GPUs), "card", list.Next != "")}
	for i := range list.GPUs {
		g := &list.GPUs[i]
		c.GPUs = append(c.GPUs, Card{g.ID, g.Name, g.Vendor, g.MemoryBytes, g.UsableBytes})
	}
	return c, nil
}

func (*Cards) complete() bool { return false }

func (c *Cards) words() string {
	var lines []string
	for _, g := range c.GPUs {
		usable := "memory unknown"
		if g.UsableBytes > 0 {
			usable = size(g.UsableBytes) + " usable"
		}
		lines = append(lines, fmt.Sprintf("%s: %s, %s", g.ID, g.Name, usable))
	}
	return listing(c.Says, lines)
}

func (c *Cards) shorten() bool { return shortenList(&c.GPUs) }

// Models are entries of the catalog, in short.
type Models struct {
	Says   string  `json:"says"`
	Models []Model `json:"models"`
}

// Model is one of them.
type Model struct {
	ID         string `json:"id" jsonschema:"what a job's model.preset names"`
	Family     string `json:"family"`
	Parameters int64  `json:"parameters"`
}

func findModel(ctx context.Context, o Options, given json.RawMessage) (answer, error) {
	a, err := arguments[modelArguments](given)
	if err != nil {
		return nil, err
	}
	list, _, err := ask[struct {
		Models []struct {
			ID         string `json:"id"`
			Family     string `json:"family"`
			Parameters int64  `json:"params_total"`
		} `json:"models"`
		Next string `json:"next_page_token"`
	}](ctx, o, "GET", listed("/v1/models", map[string]string{"q": a.Query, "family": a.Family}), nil)
	if err != nil {
		return nil, err
	}
	m := &Models{Models: []Model{}, Says: found(len(list.Models), "model", list.Next != "")}
	for _, x := range list.Models {
		m.Models = append(m.Models, Model(x))
	}
	return m, nil
}

func (*Models) complete() bool { return false }

func (m *Models) words() string {
	var lines []string
	for _, x := range m.Models {
		lines = append(lines, fmt.Sprintf("%s: %s, %d parameters", x.ID, x.Family, x.Parameters))
	}
	return listing(m.Says, lines)
}

func (m *Models) shorten() bool { return shortenList(&m.Models) }

// found says how many entries there are.
func found(n int, what string, more bool) string {
	switch {
	case n == 0:
		return "The catalog has no such " + what + ": try a shorter part of its name."
	case more:
		return fmt.Sprintf("The first %d %ss of more: a longer part of a name says which is meant.", n, what)
	case n == 1:
		return "One " + what + "."
	}
	return fmt.Sprintf("%d %ss.", n, what)
}

// listing is a line and items below it.
func listing(title string, items []string) string {
	if len(items) == 0 {
		return title
	}
	return title + "\n- " + strings.Join(items, "\n- ")
}

// shortenList cuts the longest text of a list, or leaves its last entry out.
func shortenList[E any](list *[]E) bool {
	if texts, ok := any(*list).([]string); ok {
		const long = 240
		for i, s := range texts {
			if len([]rune(s)) > long {
				clone := slices.Clone(texts)
				clone[i] = clip(s, long)
				*list = any(clone).([]E)
				return true
			}
		}
	}
	if len(*list) == 0 {
		return false
	}
	*list = (*list)[:len(*list)-1]
	return true
}
