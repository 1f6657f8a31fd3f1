package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/store/pgtest"
)

// go test ./cmd/vramplan -update rewrites the expected output in the scripts.
var update = flag.Bool("update", false, "rewrite the expected output in testdata/script")

// The test binary is the program itself when a script calls it.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"vramplan": main})
}

// tests are the tests of this package, with a PostgreSQL server for those that need one.
type tests struct{ m *testing.M }

// Run fails where a test has left a goroutine behind.
func (t tests) Run() int {
	code := pgtest.Run(t.m)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			return 1
		}
	}
	return code
}

// TestScripts runs testdata/script/*.txtar. Scripts whose expected output does
// not depend on the estimator ask $FAKE, a service that says what its input asks
// it to; the others are answered locally.
func TestScripts(t *testing.T) {
	fake := httptest.NewServer(http.HandlerFunc(fakeService))
	t.Cleanup(fake.Close)
	models := httptest.NewServer(http.HandlerFunc(fakeHub))
	t.Cleanup(models.Close)
	runScripts(t, "testdata/script", func(env *testscript.Env) {
		env.Setenv("HUB", models.URL)
		env.Setenv("FAKE", fake.URL)
		env.Setenv("GONE", "http://127.0.0.1:1") // nothing listens on port 1
		snapshots, err := filepath.Abs("../../service/testdata/snapshots")
		if err != nil {
			t.Fatal(err)
		}
		env.Setenv("SNAPSHOTS", snapshots)
		env.Setenv("VRAMPLAN_ADVICE_TIMEOUT", "1m") // these scripts are not about time
	})
}

// TestPostgresScripts runs testdata/postgres/*.txtar, each on a database of its own.
func TestPostgresScripts(t *testing.T) {
	pgtest.Database(t) // skips where there is no server
	runScripts(t, "testdata/postgres", func(env *testscript.Env) { env.Setenv("DATABASE", pgtest.Database(t)) })
}

// fakeHub has one model, and one that asks its readers to agree to something.
func fakeHub(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/acme/gated/"):
		w.Header().Set("X-Error-Code", "GatedRepo")
		w.WriteHeader(http.StatusForbidden)
	case r.URL.Path == "/acme/hosted/resolve/main/config.json" && r.Header.Get("Authorization") == "Bearer let-me-in":
		fmt.Fprint(w, `{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256,
			"intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
			"vocab_size": 1000, "max_position_embeddings": 512}`)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func runScripts(t *testing.T, folder string, setup func(*testscript.Env)) {
	testscript.Run(t, testscript.Params{
		Dir:                 folder,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			setup(env)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"longjob": longJob,
			"listen":  freeAddress,
			"fetch":   fetch,
			"keyof":   keyOf,
			"request": request,
			"field":   field,

			"certificate": writeCertificate,
		},
	})
}

// exits runs a command and compares its exit code: exits 2 vramplan check -f bad.json
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program args...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%s ended with %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// longJob writes a job on one line that is longer than the limit: longjob FILE
func longJob(ts *testscript.TestScript, _ bool, args []string) {
	line := `{"model": {"preset": "` + strings.Repeat("x", maxDocumentBytes) + `"}}` + "\n"
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	ts.Check(err)
	_, err = io.WriteString(f, line)
	ts.Check(err)
	ts.Check(f.Close())
}

// lastPort is the port that freeAddress gave out last. They lie below those that the system
// gives to outgoing connections, of which the tests make many.
var lastPort atomic.Int32

// freeAddress sets $LISTEN to an address on which nothing listens.
func freeAddress(ts *testscript.TestScript, _ bool, _ []string) {
	lastPort.CompareAndSwap(0, int32(15_000+os.Getpid()%10_000))
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", lastPort.Add(1))
		if l, err := net.Listen("tcp", address); err == nil {
			ts.Check(l.Close())
			ts.Setenv("LISTEN", address)
			return
		}
	}
	ts.Fatalf("no port is free")
}

// fetch waits until a service answers and prints the answer: fetch URL
func fetch(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		res, err := http.Get(args[0])
		if err != nil && time.Now().Before(deadline) {
			continue
		}
		ts.Check(err)
		body, err := io.ReadAll(res.Body)
		ts.Check(err)
		ts.Check(res.Body.Close())
		_, err = ts.Stdout().Write(body)
		ts.Check(err)
		return
	}
}

// keyOf takes an API key and its id from what the last command printed: keyof KEY ID
func keyOf(ts *testscript.TestScript, _ bool, args []string) {
	var k keyDocument
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &k))
	ts.Setenv(args[0], k.Key)
	ts.Setenv(args[1], k.ID)
}

// field takes a text from the JSON that the last command printed: field NAME FIELD
func field(ts *testscript.TestScript, _ bool, args []string) {
	var document map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &document))
	value, ok := document[args[1]].(string)
	if !ok {
		ts.Fatalf("%s is not a text", args[1])
	}
	ts.Setenv(args[0], value)
}

// request sends a file with $KEY and compares the status: request 201 PUT URL FILE HEADER...
func request(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: request status method url file headers...")
	}
	body := ""
	if args[3] != "none" {
		body = ts.ReadFile(args[3])
	}
	req, err := http.NewRequest(args[1], args[2], strings.NewReader(body))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+ts.Getenv("KEY"))
	for _, header := range args[4:] {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	ts.Check(err)
	answer, err := io.ReadAll(res.Body)
	ts.Check(err)
	ts.Check(res.Body.Close())
	if got := strconv.Itoa(res.StatusCode); got != args[0] {
		ts.Fatalf("%s %s has status %s, want %s: %s", args[1], args[2], got, args[0], answer)
	}
}

// fakeService is a service whose verdicts are the names of the cards in a job,
// and whose failures are the names of its models.
func fakeService(w http.ResponseWriter, r *http.Request) {
	var job struct {
		Model struct{ Preset string } `json:"model"`
		GPUs  []string                `json:"gpus"`
	}
	body, err := io.ReadAll(r.Body)
	if r.Method == http.MethodPost && (err != nil || json.Unmarshal(body, &job) != nil) {
		refuse(w, r, http.StatusBadRequest, "malformed_json", "")
		return
	}
	switch job.Model.Preset {
	case "nobody-knows":
		refuse(w, r, http.StatusUnprocessableEntity, "unknown_model", "/model/preset")
	case "not-modelled":
		refuse(w, r, http.StatusUnprocessableEntity, "unsupported", "/model")
	case "impossible":
		refuse(w, r, http.StatusUnprocessableEntity, "not_divisible", "/model/dimensions/heads")
	case "broken":
		refuse(w, r, http.StatusInternalServerError, "internal", "")
	case "busy":
		refuse(w, r, http.StatusServiceUnavailable, "unavailable", "")
	case "proxy":
		http.Error(w, "<html>no</html>", http.StatusBadRequest)
	case "nonsense":
		_, _ = io.WriteString(w, "not JSON")
	case "slow":
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
	case "gpt2", "evil":
		if slices.Contains(job.GPUs, "no-such-card") {
			refuse(w, r, http.StatusUnprocessableEntity, "unknown_gpu", "/gpus/0")
			return
		}
		if r.URL.Path == "/v1/plan" {
			answerJSON(w, fakePlan())
			return
		}
		answerJSON(w, fakeEstimate(job.Model.Preset, job.GPUs))
	default:
		http.NotFound(w, r)
	}
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code, pointer string) {
	p := map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "code": code,
		"instance": r.URL.Path}
	if pointer != "" {
		p["errors"] = []invalid.Field{{Pointer: pointer, Code: code, Detail: "is wrong"}}
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(p)
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func fakeEstimate(model string, cards []string) estimator.Result {
	name := "openai-community/gpt2"
	if model == "evil" {
		name = "a|b\x1b[31m<red>"
	}
	r := estimator.Result{
		Versions: estimator.Versions{Estimator: "test", Reference: "test", Calibration: "test"},
		Model: estimator.ModelInfo{Name: name, Family: "gpt2", Parameters: 124439808,
			TrainableParameters: 124439808},
		Peak: estimator.Peak{Phase: "backward", MicroStep: ptr[int64](1), Where: "loss backward",
			AllocatedBytes: 9 * gib, ReservedBytes: 10 * gib, DeviceBytes: 11 * gib, LowBytes: 10*gib + gib/2,
			HighBytes: 12 * gib, MinimumLimitBytes: 9 * gib},
		Components: []estimator.Component{
			{Name: "weights", Bytes: 474 * mib, Share: 474. / (11 * 1024), How: "124,439,808 parameters × 4 B (fp32)"},
			{Name: "activations", Bytes: 6 * gib, Share: 6. / 11,
				Parts: []estimator.Part{{Name: "attention", Bytes: 2 * gib}, {Name: "mlp", Bytes: 4 * gib}}},
			{Name: "logits_and_loss", Bytes: 11*gib - 6*gib - 474*mib, Share: 1 - 6./11 - 474./(11*1024)},
			{Name: "communication"},
		},
		Notes: []estimator.Note{{Code: "logits-dominate", Text: "The logits hold much."}},
	}
	usable := map[string]int64{"fits": 16 * gib, "tight": 11*gib + gib/2, "unlikely": 10*gib + gib*3/4,
		"does_not_fit": 8 * gib, "unknown": 0}
	for _, c := range cards {
		fit := estimator.GPUFit{GPU: c, Verdict: estimator.Verdict(c), UsableBytes: usable[c], Probability: 0.5}
		if fit.UsableBytes > 0 {
			fit.HeadroomBytes = fit.UsableBytes - r.Peak.DeviceBytes
		}
		r.GPUs = append(r.GPUs, fit)
	}
	return r
}

func fakePlan() planner.Plan {
	half := planner.StepTime{Low: 1, Expected: 1.03, High: 1.1, Basis: "model"}
	return planner.Plan{
		Model: estimator.ModelInfo{Name: "openai-community/gpt2"}, EffectiveBatch: 512, DataParallelGPUs: 1,
		GPU: "does_not_fit", UsableBytes: 8 * gib,
		Today: &planner.Today{MicroBatch: 16, GradientAccumulation: 32, EffectiveBatch: 512,
			DeviceBytes: 11 * gib, HighBytes: 12 * gib, HeadroomBytes: -3 * gib, Verdict: estimator.DoesNotFit},
		Pairs: []planner.Pair{{MicroBatch: 8, GradientAccumulation: 64, EffectiveBatch: 512, DeviceBytes: 6 * gib,
			HighBytes: 7 * gib, HeadroomBytes: 2 * gib, Verdict: estimator.Fits, RelativeStepTime: 1.03}},
		Recommended: &planner.Choice{MicroBatch: 8, GradientAccumulation: 64}, LargestMicroBatch: 11,
		Options: []planner.Option{
			{Rank: 1, Title: "Reduce the micro-batch only",
				Settings: []string{"batch_size = 8", "gradient_accumulation_steps = 64"}, EffectiveBatch: 512,
				SavesBytes: new(int64(5 * gib)), DeviceBytes: 6 * gib, Verdict: estimator.Fits, RelativeStepTime: half,
				TrainingEffect: "none", Recommendation: "best choice"},
			{Rank: 2, Title: "Fewer layers", Settings: []string{"n_layer = 9"}, EffectiveBatch: 512,
				DeviceBytes: 9 * gib, Verdict: estimator.DoesNotFit, RelativeStepTime: half},
			{Rank: 3, Title: "Smaller effective batch", Settings: []string{"batch_size = 4"}, EffectiveBatch: 128,
				DeviceBytes: 4 * gib, Verdict: estimator.Fits,
				RelativeStepTime: half, TrainingEffect: "effective batch 512 → 128"},
		},
		SmallestGPUs: []string{"rtx-4090"},
	}
}

const (
	mib = 1 << 20
	gib = 1 << 30
)
