package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// recorder stands in for the estimator: it shows what the service asked, and its answers are
// as large as the micro-batch. What is tested here is around the estimator.
type recorder struct {
	mu     sync.Mutex
	inputs []estimator.Input
	errors []invalid.Field
}

func (r *recorder) estimate(in estimator.Input) (*estimator.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inputs = append(r.inputs, in)
	if in.Job.Model.Preset != "" && in.Preset == nil {
		return nil, &invalid.Error{Fields: append([]invalid.Field{{Pointer: "/model/preset", Code: "unknown_model",
			Detail: "no preset"}}, r.errors...)}
	}
	if len(r.errors) > 0 {
		return nil, &invalid.Error{Fields: r.errors}
	}
	bytes := in.Job.Training.MicroBatch << 30
	result := &estimator.Result{Peak: estimator.Peak{LowBytes: bytes, DeviceBytes: bytes, HighBytes: bytes}}
	for _, g := range in.GPUs {
		verdict := estimator.Fits
		if bytes > g.UsableBytes {
			verdict = estimator.DoesNotFit
		}
		result.GPUs = append(result.GPUs, estimator.GPUFit{GPU: g.ID, UsableBytes: g.UsableBytes,
			HeadroomBytes: g.UsableBytes - bytes, Verdict: verdict})
	}
	return result, nil
}

func (r *recorder) last(t *testing.T) estimator.Input {
	t.Helper()
	if len(r.inputs) == 0 {
		t.Fatal("the estimator was not asked")
	}
	return r.inputs[len(r.inputs)-1]
}

func recorded(opts ...Option) (*Service, *recorder) {
	s, r := New(EmbeddedCatalog(), opts...), &recorder{}
	s.estimate, s.judge = r.estimate, func() planner.Estimator { return r.estimate }
	return s, r
}

func job(t *testing.T, document string) estimator.Job {
	t.Helper()
	var j estimator.Job
	if err := json.Unmarshal([]byte(document), &j); err != nil {
		t.Fatal(err)
	}
	return j
}

func TestEstimateResolvesNames(t *testing.T) {
	s, r := recorded()
	result, err := s.Estimate(t.Context(), job(t, `{
		"model": {"preset": "GPT2"}, "training": {"micro_batch": 4},
		"gpus": ["NVIDIA GeForce RTX 4070", "h100", {"name": "lab card", "memory_bytes": 17179869184}, {"name": "rtx-4090"}, {"name": "RTX 4090", "memory_bytes": 51527024640}, "a100-mig-1g.10gb"]
	}`), EstimateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	in := r.last(t)
	if in.Preset == nil || in.Preset.ID != "openai-community/gpt2" || in.Job.Model.Preset != in.Preset.ID ||
		in.Preset.Layers != 12 {
		t.Errorf("preset %+v for %q", in.Preset, in.Job.Model.Preset)
	}
	type card struct {
		ID     string
		MiB    int64
		CC, SM int
	}
	var cards []card
	for _, g := range in.GPUs {
		cards = append(cards, card{g.ID, g.UsableBytes / catalog.MiB, g.ComputeCapability, g.Multiprocessors})
	}
	want := []card{
		{"rtx-4070", 11994, 89, 46}, {"h100-sxm5", 81082, 90, 132}, {"lab card", 15921, 0, 0},
		{"rtx-4090", 24081, 89, 128}, {"RTX 4090", 48476, 89, 128}, {"a100-sxm4-40gb-mig-1g.10gb", 9856, 80, 14},
	}
	if diff := cmp.Diff(want, cards); diff != "" {
		t.Errorf("cards (-want +got):\n%s", diff)
	}
	if result.Versions.Catalog != migrations.CatalogRevision {
		t.Errorf("catalog %q", result.Versions.Catalog)
	}
	if len(result.Notes) != 1 || result.Notes[0].Code != "gpu-name" || !strings.Contains(result.Notes[0].Text,
		`"h100" is read as h100-sxm5`) {
		t.Errorf("notes %+v", result.Notes)
	}
}

func TestNotesOnInferredMemory(t *testing.T) {
	s, _ := recorded()
	result, err := s.Estimate(t.Context(),
		job(t, `{"model": {"preset": "gpt2"}, "gpus": ["rtx-4080", "gaudi2", "rtx-4070"]}`), EstimateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, n := range result.Notes {
		codes = append(codes, n.Code)
	}
	if diff := cmp.Diff([]string{"usable-memory-inferred", "usable-memory-unknown"}, codes); diff != "" {
		t.Error(diff)
	}
}

func TestWholeCatalog(t *testing.T) {
	s, r := recorded()
	if _, err := s.Estimate(t.Context(), job(t, `{"model": {"preset": "gpt2"}, "gpus": ["rtx-4070", "*", "*"]}`),
		EstimateOptions{}); err != nil {
		t.Fatal(err)
	}
	whole, err := EmbeddedCatalog().GPUs()
	if err != nil {
		t.Fatal(err)
	}
	if in := r.last(t); len(in.GPUs) != len(whole)+1 || in.GPUs[0].ID != "rtx-4070" || in.GPUs[1].ID != whole[0].ID {
		t.Errorf("%d cards", len(in.GPUs))
	}
}

// Everything that is wrong comes back at once: names, and what the estimator found.
func TestAllProblemsAtOnce(t *testing.T) {
	s, r := recorded()
	r.errors = []invalid.Field{{Pointer: "/training/sequence_length", Code: "out_of_range", Detail: "too long"}}
	for name, ask := range map[string]func(estimator.Job) error{
		"estimate": func(j estimator.Job) error {
			_, err := s.Estimate(t.Context(), j, EstimateOptions{})
			return err
		},
		"plan": func(j estimator.Job) error {
			_, err := s.Plan(t.Context(), PlanRequest{Job: j, EffectiveBatch: 64}, PlanOptions{})
			return err
		},
	} {
		err := ask(job(t, `{"model": {"preset": "Llama-3.1-9B"}, "training": {"micro_batch": 1}, "gpus": ["rtx-4071", "rtx-4070", {}, {"name": "*", "memory_bytes": 1073741824}]}`))
		problems, ok := errors.AsType[*estimator.InvalidJobError](err)
		if !ok {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, f := range problems.Fields {
			got = append(got, f.Pointer+" "+f.Code)
		}
		want := []string{"/gpus/0 unknown_gpu", "/gpus/2 required", "/model/preset unknown_model",
			"/training/sequence_length out_of_range"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if d := problems.Fields[0].Detail; !strings.Contains(d, `"rtx-4071"`) || !strings.Contains(d, "rtx-4070") {
			t.Errorf("%s: the detail names neither the name nor a suggestion: %s", name, d)
		}
		if d := problems.Fields[2].Detail; !strings.Contains(d, "meta-llama/Llama-3.1-8B") {
			t.Errorf("%s: the detail has no suggestion: %s", name, d)
		}
	}
}

// A job may hold hundreds of unknown names; only the first are compared with the catalog.
func TestManyUnknownNames(t *testing.T) {
	s, _ := recorded()
	j := job(t, `{"model": {"preset": "gpt2"}}`)
	for range 512 {
		j.GPUs = append(j.GPUs, estimator.GPURef{Name: "rtx-4071"})
	}
	_, err := s.Estimate(t.Context(), j, EstimateOptions{})
	problems, ok := errors.AsType[*estimator.InvalidJobError](err)
	if !ok || len(problems.Fields) != 512 {
		t.Fatalf("%v", err)
	}
	suggested := 0
	for _, f := range problems.Fields {
		if strings.Contains(f.Detail, "nearest") {
			suggested++
		}
	}
	if suggested != maxSuggestions {
		t.Errorf("%d names have suggestions, want %d", suggested, maxSuggestions)
	}
}

func TestCache(t *testing.T) {
	s, r := recorded()
	ask := func(document string, o EstimateOptions) *estimator.Result {
		t.Helper()
		result, err := s.Estimate(t.Context(), job(t, document), o)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	const base = `{"model": {"preset": "gpt2"}, "training": {"micro_batch": 4}, "gpus": ["rtx-4070"]}`
	ask(base, EstimateOptions{})
	// Other spellings of the same job.
	ask(`{"gpus": [{"name": "RTX 4070"}], "training": {"micro_batch": 4}, "model": {"preset": "openai-community/GPT2"}}`, EstimateOptions{})
	if len(r.inputs) != 1 {
		t.Errorf("the estimator was asked %d times for one job", len(r.inputs))
	}
	// Other jobs, each to be asked for.
	for i, document := range []string{
		`{"model": {"preset": "gpt2"}, "training": {"micro_batch": 5}, "gpus": ["rtx-4070"]}`,
		`{"model": {"preset": "gpt2-medium"}, "training": {"micro_batch": 4}, "gpus": ["rtx-4070"]}`,
		`{"model": {"preset": "gpt2"}, "training": {"micro_batch": 4}, "gpus": ["rtx-4070", "rtx-4070"]}`,
		`{"model": {"preset": "gpt2"}, "training": {"micro_batch": 4}, "gpus": [{"name": "rtx-4070", "memory_bytes": 1073741824}]}`,
		`{"model": {"preset": "gpt2"}, "training": {"micro_batch": 4, "clip_grad_norm": false}, "gpus": ["rtx-4070"]}`,
	} {
		ask(document, EstimateOptions{})
		if len(r.inputs) != 2+i {
			t.Errorf("%s was taken for another job", document)
		}
	}
	before := len(r.inputs)
	for range 2 {
		ask(base, EstimateOptions{Timeline: true})
	}
	if len(r.inputs) != before+2 || !r.last(t).Timeline {
		t.Error("a timeline was remembered, or not asked for")
	}
	if stats := s.CacheStats(); stats != (CacheStats{Hits: 1, Misses: 6, Entries: 6}) {
		t.Errorf("%+v", stats)
	}
}

// A note about a name is the asker's own: it does not get into the shared answer.
func TestNotesAreNotShared(t *testing.T) {
	s, _ := recorded()
	for _, c := range []struct {
		name  string
		notes int
	}{{"a100", 1}, {"a100-sxm4-40gb", 0}, {"a100", 1}} {
		result, err := s.Estimate(t.Context(),
			job(t, fmt.Sprintf(`{"model": {"preset": "gpt2"}, "gpus": [%q]}`, c.name)), EstimateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Notes) != c.notes {
			t.Errorf("%s: notes %+v", c.name, result.Notes)
		}
	}
}

func TestWithoutCache(t *testing.T) {
	s, r := recorded(WithCache(0))
	for range 3 {
		if _, err := s.Estimate(t.Context(), job(t, `{"model": {"preset": "gpt2"}}`), EstimateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.inputs) != 3 || s.CacheStats() != (CacheStats{}) {
		t.Errorf("asked %d times, %+v", len(r.inputs), s.CacheStats())
	}
}

func TestCacheIsBounded(t *testing.T) {
	s, _ := recorded(WithCache(8))
	for i := range 50 {
		if _, err := s.Estimate(t.Context(),
			job(t, fmt.Sprintf(`{"model": {"preset": "gpt2"}, "training": {"micro_batch": %d}}`, i+1)),
			EstimateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if stats := s.CacheStats(); stats.Entries != 8 {
		t.Errorf("%+v", stats)
	}
}

func TestPlan(t *testing.T) {
	s, r := recorded()
	request := PlanRequest{Job: job(t,
		`{"model": {"preset": "gpt2"}, "training": {"micro_batch": 16, "gradient_accumulation": 32}, "gpus": ["rtx-4070"]}`)}
	plan, err := s.Plan(t.Context(), request, PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if plan.EffectiveBatch != 512 || plan.GPU != "rtx-4070" || plan.Versions.Catalog != migrations.CatalogRevision ||
		len(plan.Pairs) != 10 {
		t.Errorf("%+v", plan)
	}
	asked := len(r.inputs)
	if again, err := s.Plan(t.Context(), request, PlanOptions{}); err != nil || again != plan ||
		len(r.inputs) != asked {
		t.Errorf("the plan was not remembered: %v", err)
	}
	if _, err := s.Plan(t.Context(), request, PlanOptions{Frontier: true}); err != nil || len(r.inputs) == asked {
		t.Errorf("a plan with a frontier is another plan: %v", err)
	}
	request.MeasuredSteps = []jobdoc.MeasuredStep{{StepTimeSeconds: 17}}
	timed, err := s.Plan(t.Context(), request, PlanOptions{})
	if err != nil || timed.StepTimeBasis != "calibrated" || plan.StepTimeBasis != "model" {
		t.Errorf("a plan with a measured step rests on %q, one without on %q: %v", timed.StepTimeBasis,
			plan.StepTimeBasis, err)
	}
}

func TestReading(t *testing.T) {
	s, _ := recorded()
	ctx := t.Context()
	whole, err := EmbeddedCatalog().GPUs()
	if err != nil {
		t.Fatal(err)
	}
	models, err := EmbeddedCatalog().Models()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		filter GPUFilter
		atLeas int
		all    func(catalog.GPU) bool
	}{
		{GPUFilter{}, len(whole), func(catalog.GPU) bool { return true }},
		{GPUFilter{Vendor: "amd"}, 10, func(g catalog.GPU) bool { return g.Vendor == "AMD" }},
		{GPUFilter{MinUsableBytes: 80 << 30}, 10, func(g catalog.GPU) bool { return g.UsableBytes >= 80<<30 }},
		{GPUFilter{Query: "RTX 40"}, 10, func(g catalog.GPU) bool { return strings.Contains(g.ID, "rtx-40") }},
	} {
		list, err := s.GPUs(ctx, c.filter)
		if err != nil || len(list.Entries) < c.atLeas || len(list.Entries) > len(whole) {
			t.Errorf("%+v: %d cards, %v", c.filter, len(list.Entries), err)
		}
		for _, g := range list.Entries {
			if !c.all(g) {
				t.Errorf("%+v selected %s", c.filter, g.ID)
			}
		}
	}
	if list, err := s.Models(ctx, ModelFilter{}); err != nil || len(list.Entries) != len(models) {
		t.Errorf("%d models, %v", len(list.Entries), err)
	}
	if list, err := s.Models(ctx, ModelFilter{Family: "QWEN3", Query: "14b"}); err != nil || len(list.Entries) != 1 ||
		list.Entries[0].ID != "Qwen/Qwen3-14B" {
		t.Errorf("%+v, %v", list, err)
	}
	if g, err := s.GPU(ctx, "NVIDIA A40"); err != nil || g.ID != "a40" {
		t.Errorf("%+v, %v", g, err)
	}
	if m, err := s.Model(ctx, "gpt2"); err != nil || m.ID != "openai-community/gpt2" {
		t.Errorf("%+v, %v", m, err)
	}
	_, gpuErr := s.GPU(ctx, "rtx-4071")
	_, modelErr := s.Model(ctx, "gpt3")
	for _, err := range []error{gpuErr, modelErr} {
		if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeNotFound || len(e.Suggestions) == 0 {
			t.Errorf("%v", err)
		}
	}
}

func TestBrokenCatalog(t *testing.T) {
	broken := errors.New("the disk is gone")
	s := New(catalog.New(migrations.CatalogRevision, catalog.Loader{
		GPUs:   func() ([]catalog.GPU, error) { return nil, broken },
		Models: func() ([]catalog.Model, error) { return nil, broken },
	}))
	if err := s.Ready(t.Context()); !errors.Is(err, broken) || ErrorCode(err) != CodeUnavailable {
		t.Errorf("ready: %v", err)
	}
	_, estimate := s.Estimate(t.Context(), job(t, `{"model": {"preset": "gpt2"}}`), EstimateOptions{})
	_, star := s.Estimate(t.Context(), job(t, `{"gpus": ["*"]}`), EstimateOptions{})
	_, plan := s.Plan(t.Context(), PlanRequest{Job: job(t, `{}`)}, PlanOptions{})
	_, gpus := s.GPUs(t.Context(), GPUFilter{})
	_, models := s.Models(t.Context(), ModelFilter{})
	_, gpu := s.GPU(t.Context(), "rtx-4070")
	for _, err := range []error{estimate, star, plan, gpus, models, gpu} {
		if !errors.Is(err, broken) || ErrorCode(err) != CodeInternal {
			t.Errorf("%v", err)
		}
	}
}

func TestCancelled(t *testing.T) {
	s, r := recorded()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, estimate := s.Estimate(ctx, estimator.Job{}, EstimateOptions{})
	_, plan := s.Plan(ctx, PlanRequest{}, PlanOptions{})
	_, gpu := s.GPU(ctx, "rtx-4070")
	_, model := s.Model(ctx, "gpt2")
	_, gpus := s.GPUs(ctx, GPUFilter{})
	_, models := s.Models(ctx, ModelFilter{})
	for _, err := range []error{estimate, plan, gpu, model, gpus, models, s.Ready(ctx)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
	if len(r.inputs) != 0 {
		t.Error("worked for a caller who had gone")
	}
}

func TestReady(t *testing.T) {
	if err := New(EmbeddedCatalog()).Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConcurrentUse(t *testing.T) {
	s, _ := recorded()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for i := range 20 {
				j := estimator.Job{Model: estimator.Model{Preset: "gpt2"}, GPUs: []estimator.GPURef{{Name: "a100"}}}
				j.Training.MicroBatch = int64(i%5 + 1)
				if _, err := s.Estimate(context.Background(), j, EstimateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}

func benchmarkEstimate(b *testing.B, opts ...Option) {
	s, _ := recorded(opts...)
	j := estimator.Job{Model: estimator.Model{Preset: "gpt2"}, GPUs: []estimator.GPURef{{Name: "rtx-4070"}}}
	j.Training.MicroBatch = 4
	for b.Loop() {
		if _, err := s.Estimate(b.Context(), j, EstimateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

// The service's own part of an estimate: names, digest, cache.
func BenchmarkEstimateRemembered(b *testing.B) { benchmarkEstimate(b) }

func BenchmarkResolve(b *testing.B) { benchmarkEstimate(b, WithCache(0)) }

// BenchmarkPlanEveryCard plans GPT-2 124M as nanoGPT trains it for every card of the catalog.
func BenchmarkPlanEveryCard(b *testing.B) {
	s := New(EmbeddedCatalog(), WithCache(0))
	j := estimator.Job{Model: estimator.Model{Preset: "nanogpt/train_gpt2"}, GPUs: []estimator.GPURef{{Name: "*"}}}
	j.Training = estimator.Training{MicroBatch: 16, SequenceLength: 1024, GradientAccumulation: 32,
		Optimizer: &estimator.Optimizer{Name: "adamw", Implementation: "fused"}}
	for b.Loop() {
		if _, err := s.Plan(b.Context(), PlanRequest{Job: j}, PlanOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
