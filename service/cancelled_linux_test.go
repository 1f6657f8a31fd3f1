package service

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// mostAfterCancelling is how many estimates of a small job an estimate may take of a core when nobody waits for it any
// more: some 50 ms where the small one takes half of one, and as much more as this machine, or the code as it was
// built, is slower.
const mostAfterCancelling = 100

// small is the job of which mostAfterCancelling speaks.
const small = `{"model":{"preset":"gpt2"},"training":{"micro_batch":8,"sequence_length":1024}}`

// limit is what mostAfterCancelling is in the time of this thread: of a few rows of small estimates the least counts.
func limit(t *testing.T, c *catalog.Catalog) time.Duration {
	t.Helper()
	job, err := jobdoc.Decode([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	r, err := resolve(c, job)
	if err != nil {
		t.Fatal(err)
	}
	least := time.Hour
	for range 5 {
		began := threadTime()
		for range mostAfterCancelling / 5 {
			if _, _, err := cancelled(r.input, -2); err != nil {
				t.Fatal(err)
			}
		}
		least = min(least, 5*(threadTime()-began))
	}
	return least
}

// threadTime is the processor time of this thread, which does not depend on what else runs; getrusage counts in ticks
// of four milliseconds.
func threadTime() time.Duration {
	const thisThread = 3 // CLOCK_THREAD_CPUTIME_ID
	var at syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, thisThread, uintptr(unsafe.Pointer(&at)), 0)
	if failed != 0 {
		panic(failed)
	}
	return time.Duration(at.Nano())
}

// lookedAt is the turn of an estimate that is cancelled just after a look, when it takes longest to be seen.
type lookedAt struct {
	ended chan struct{}
	// after is the look after which the estimate is cancelled, none below zero.
	after         int
	looks         []time.Duration
	last, cancels time.Duration
}

func (l *lookedAt) Pace() {
	now := threadTime()
	l.looks = append(l.looks, now-l.last)
	// The look that this is part of sees that nobody waits, so it is the next one that is asked about: what is
	// cancelled now is what would have been cancelled a moment after.
	if len(l.looks) == l.after+2 {
		close(l.ended)
	}
	l.last = threadTime()
	if len(l.looks) == l.after+1 {
		l.cancels = l.last
	}
}

func (l *lookedAt) Rest()   {}
func (l *lookedAt) Resume() {}
func (l *lookedAt) End()    {}

// cancelled runs an estimate that is cancelled after a look, and says what it took of a core from then on.
func cancelled(in estimator.Input, after int) (l *lookedAt, took time.Duration, err error) {
	l = &lookedAt{ended: make(chan struct{}), after: after, last: threadTime()}
	in.Done = l.ended
	in.MostRequests = mostRequests
	in.Admit = func(c estimator.Cost) (estimator.Turn, error) {
		l.Pace()
		if c.Bytes > 144<<20 { // what a service in 512 MiB has for one
			return nil, estimator.ErrStopped
		}
		return l, nil
	}
	_, err = estimator.Estimate(in)
	return l, threadTime() - l.cancels, err
}

// looped is the job that went on for longest before updates looked, for 178 ms: an optimizer that goes through the
// tensors of 65,536 experts one by one, twice.
const looped = `{"model":{"hf_config":{"attention_bias":false,"head_dim":128,"hidden_size":4096,"intermediate_size":3072,` +
	`"max_position_embeddings":32768,"model_type":"hunyuan_v1_moe","moe_topk":8,"num_attention_heads":32,` +
	`"num_experts":64,"num_hidden_layers":1024,"num_key_value_heads":8,"tie_word_embeddings":true,"vocab_size":128167}},` +
	`"training":{"distributed":{"data":"ddp","world_size":8},"micro_batch":1,"optimizer":{"name":"galore-adamw"},` +
	`"sequence_length":128,"versions":{"torch":"2.9.1","transformers":"4.57.6"}}}`

// TestEstimatesEndWithTheirRequest: whatever dear job is drawn, and whenever its client goes, an estimate ends soon
// after. It is cancelled where it looked least often, and at a drawn moment; of each the least of a few runs counts,
// since a thread's clock has what the machine took to find it memory and the collector asked of it.
func TestEstimatesEndWithTheirRequest(t *testing.T) {
	c := EmbeddedCatalog()
	models, err := c.Models()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	within := limit(t, c)
	most, answered := endsSoon(t, c, within, []byte(looped), func(looks int) int { return looks / 2 }), 1
	if most < 0 || t.Failed() {
		t.Fatal("the job that took longest is not answered, or takes long still")
	}
	enough := threadTime() + drawnFor(t)
	rapid.Check(t, func(t *rapid.T) {
		if threadTime() > enough {
			return
		}
		took := endsSoon(t, c, within, dearJob(t, models), func(looks int) int {
			return rapid.IntRange(0, looks-1).Draw(t, "moment")
		})
		if took >= 0 {
			most, answered = max(most, took), answered+1
		}
	})
	t.Logf("%d jobs took at most %v of a core when nobody waited any more, %v allowed", answered, most, within)
}

// endsSoon is what a job took at most when nobody waited any more, asserted to be within a limit; below zero where it
// is not answered.
func endsSoon(t rapid.TB, c *catalog.Catalog, within time.Duration, text []byte,
	moment func(looks int) int) (most time.Duration) {
	job, err := jobdoc.Decode(text)
	if err != nil {
		return -1
	}
	r, err := resolve(c, job)
	if err != nil {
		t.Fatal(err)
	}
	whole, _, err := cancelled(r.input, -2)
	if err != nil || len(whole.looks) < 2 {
		return -1
	}
	between := whole.looks[1:] // the first is before the job was let in
	for _, after := range []int{slices.Index(between, slices.Max(between)), moment(len(between))} {
		least := time.Hour
		for try := 0; try < 4 && least > within; try++ {
			_, took, err := cancelled(r.input, after)
			if err != nil && !errors.Is(err, estimator.ErrStopped) {
				t.Fatalf("%v", err)
			}
			least = min(least, took)
		}
		if most = max(most, least); least > within {
			t.Errorf("%v of a core, %v allowed, after look %d of %d of %s", least, within, after, len(whole.looks), text)
		}
	}
	return most
}

// drawnFor is for how much of a core jobs are drawn: four seconds, or what CANCELLED_FOR says ("5m").
func drawnFor(t *testing.T) time.Duration {
	given := os.Getenv("CANCELLED_FOR")
	if given == "" {
		return 4 * time.Second
	}
	long, err := time.ParseDuration(given)
	if err != nil {
		t.Fatal(err)
	}
	return long
}

// dearJob draws what asks for much: models of the catalog as they are and a thousand layers deep, former releases that
// run one expert after the other, adapters on everything, optimizers that loop, strategies, every card.
func dearJob(t *rapid.T, models []catalog.Model) []byte {
	yes := func(what string) bool { return rapid.Bool().Draw(t, what) }
	training := map[string]any{"micro_batch": rapid.SampledFrom([]int{1, 4, 64}).Draw(t, "micro-batch"),
		"sequence_length": rapid.SampledFrom([]int{128, 2048, 32768}).Draw(t, "tokens")}
	if yes("former releases") {
		training["versions"] = map[string]string{"torch": "2.9.1", "transformers": "4.57.6"}
	}
	if yes("adapters") {
		training["lora"] = map[string]any{"rank": 8, "target_modules": []string{"all-linear"}}
	}
	if yes("accumulates") {
		training["gradient_accumulation"] = 3
	}
	if yes("checkpoints") {
		training["checkpointing"] = "full"
	}
	if name := rapid.SampledFrom([]string{"", "", "adamw-8bit", "adafactor", "muon", "galore-adamw",
		"sgd"}).Draw(t,
		"optimizer"); name != "" {
		training["optimizer"] = map[string]any{"name": name}
	}
	if rapid.IntRange(0, 5).Draw(t, "compiled") == 0 {
		training["compile"] = true
	}
	if d := rapid.SampledFrom([]map[string]any{nil, nil, {"data": "fsdp", "fsdp_version": 1}, {"data": "fsdp"},
		{"data": "zero3"}, {"data": "zero2"}, {"data": "ddp"}, {"data": "fsdp", "tensor": 2}}).Draw(t,
		"strategy"); d != nil {
		d["world_size"] = 8
		training["distributed"] = d
	}
	m := rapid.SampledFrom(models).Draw(t, "model")
	document := map[string]any{"model": map[string]any{"preset": m.ID}, "training": training}
	if m.HFConfig != nil && yes("deep") {
		var config map[string]any
		if err := json.Unmarshal(m.HFConfig, &config); err != nil {
			t.Fatal(err)
		}
		config["num_hidden_layers"] = rapid.SampledFrom([]int{64, 256, 1024}).Draw(t, "layers")
		document["model"] = map[string]any{"hf_config": config}
	}
	if rapid.IntRange(0, 7).Draw(t, "every card") == 0 {
		document["gpus"] = []string{"*"}
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
