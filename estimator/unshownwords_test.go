package estimator

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/doubt"
)

// word is a value that a field of the job document takes by name: an optimizer, a kernel, a kind of training.
type word struct{ pointer, value string }

// wordsOf are the words of a type of the job document below pointer, as its validator tags list them.
func wordsOf(t reflect.Type, pointer string) []word {
	var found []word
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		of := f.Type
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		at := pointer + "/" + name
		if _, list, ok := strings.Cut(f.Tag.Get("validate"), "oneof="); ok && of.Kind() != reflect.Int64 { // no number
			list, _, _ = strings.Cut(list, ",")
			for _, value := range strings.Fields(list) {
				found = append(found, word{at, value})
			}
		} else if of.Kind() == reflect.Struct && name != "" && name != "-" {
			found = append(found, wordsOf(of, at)...)
		}
	}
	return found
}

// put sets a word in a job as JSON, in a list as the only element; an empty one leaves the field out.
func (w word) put(job map[string]any) {
	parts := strings.Split(w.pointer[1:], "/")
	for _, part := range parts[:len(parts)-1] {
		inner, ok := job[part].(map[string]any)
		if !ok {
			inner = map[string]any{}
			job[part] = inner
		}
		job = inner
	}
	last := parts[len(parts)-1]
	switch {
	case w.value == "":
		delete(job, last)
	case w.pointer == "/training/kernels":
		job[last] = []any{w.value}
	case last == "fsdp_version":
		job[last] = json.Number(w.value)
	default:
		job[last] = w.value
	}
}

// in says whether a job as JSON has the word.
func (w word) in(job map[string]any) bool {
	var v any = job
	for _, part := range strings.Split(w.pointer[1:], "/") {
		object, _ := v.(map[string]any)
		v = object[part]
	}
	if list, ok := v.([]any); ok {
		return slices.Contains(list, any(w.value))
	}
	if n, ok := v.(json.Number); ok {
		return n.String() == w.value
	}
	return v == w.value
}

// tracedJobs calls each with all jobs that were traced or measured, as JSON.
func tracedJobs(t *testing.T, each func(job map[string]any)) {
	t.Helper()
	for _, root := range []string{"testdata", "accuracy/testdata"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.Contains(path, ".jsonl") {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			text := io.Reader(f)
			if strings.HasSuffix(path, ".gz") {
				if text, err = gzip.NewReader(f); err != nil {
					return err
				}
			}
			lines := bufio.NewScanner(text)
			lines.Buffer(nil, 64<<20)
			for lines.Scan() {
				if path == filepath.Join("testdata", "drawn.jsonl") {
					break // which no PyTorch ran
				}
				var row struct{ Job *Job }
				if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
					return err
				}
				if row.Job == nil {
					continue
				}
				row.Job.Model = Model{} // whose words are others
				text, err := json.Marshal(row.Job)
				if err != nil {
					return err
				}
				job := map[string]any{}
				decoder := json.NewDecoder(bytes.NewReader(text))
				decoder.UseNumber()
				if err := decoder.Decode(&job); err != nil {
					return err
				}
				each(job)
			}
			return lines.Err()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// wordJobs are jobs that words may be put into.
var wordJobs = map[string]string{
	"plain":        `{}`,
	"half":         `{"training":{"precision":"bf16"}}`,
	"checkpointed": `{"training":{"gradient_checkpointing":{"mode":"full"}}}`,
	"adapters":     `{"training":{"lora":{"rank":8}}}`,
	"quantised":    `{"training":{"precision":"bf16","lora":{"rank":8,"base_precision":"nf4"}}}`,
	"chunked":      `{"training":{"loss":{"kind":"chunked","chunks":4}}}`,
	"two cards":    `{"training":{"distributed":{"data":"ddp","world_size":2}}}`,
	"sharded":      `{"training":{"distributed":{"data":"fsdp","world_size":2}}}`,
	"sft":          `{"training":{"framework":"trl","objective":{"kind":"sft"}}}`,
	"quantised sft": `{"training":{"framework":"trl","precision":"bf16","objective":{"kind":"sft"},` +
		`"lora":{"rank":8,"base_precision":"nf4"}}}`,
	"trained by trl": `{"training":{"framework":"trl","precision":"bf16","lora":{"rank":8,"base_precision":"nf4"},` +
		`"gradient_checkpointing":{"mode":"full"}}}`,
	"dpo": `{"training":{"framework":"trl","objective":{"kind":"dpo","prompt_tokens":64,"completion_tokens":64,` +
		`"reference":"separate"}}}`,
	"gkd": `{"training":{"framework":"trl","objective":{"kind":"gkd","prompt_tokens":64,"completion_tokens":64,` +
		`"teacher":{"hf_config":{"model_type":"llama","num_hidden_layers":2,"vocab_size":1000}}}}}`,
	"grpo":        `{"training":{"framework":"trl","objective":{"kind":"grpo","prompt_tokens":64,"completion_tokens":64}}}`,
	"contrastive": `{"training":{"framework":"sentence-transformers","objective":{"kind":"contrastive"}}}`,
}

// answered is the peak of a small Llama under the training of a job, and whether it is in a doubt that not every answer
// is in.
func answered(t *testing.T, doc map[string]any) (peak Peak, doubted bool, err error) {
	t.Helper()
	training := doc["training"].(map[string]any)
	training["micro_batch"], training["sequence_length"] = 8, 128
	text, err := json.Marshal(map[string]any{"training": training, "model": map[string]any{"hf_config": map[string]any{
		"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 256, "intermediate_size": 688, "vocab_size": 1000,
		"num_attention_heads": 4}}})
	if err != nil {
		t.Fatal(err)
	}
	var job Job
	if err := json.Unmarshal(text, &job); err != nil {
		t.Fatal(err)
	}
	res, err := Estimate(Input{Job: job, GPUs: []GPU{tracedGPUs["a100-sxm4-80gb"]}})
	if err != nil {
		return peak, false, err
	}
	peak = res.Peak
	peak.MicroStep, peak.LowBytes, peak.HighBytes, peak.DeviceBytes = nil, 0, 0, 0 // the context has a doubt of its own
	return peak, slices.ContainsFunc(res.Doubts, func(d DoubtSource) bool {
		return d.Source != doubt.Order.Source && d.Source != "cuda-context"
	}), nil
}

// TestWordsWithoutATraceAreInDoubt: a word of the job document that no traced or measured job has is refused, does what
// a traced one of its field does or leaving it out, or is answered with a doubt (unshownWords).
func TestWordsWithoutATraceAreInDoubt(t *testing.T) {
	words := wordsOf(reflect.TypeFor[Training](), "/training")
	shown := map[word]bool{}
	tracedJobs(t, func(job map[string]any) {
		for _, w := range words {
			if !shown[w] && w.in(job) {
				shown[w] = true
			}
		}
	})
	if len(shown) < len(words)/2 {
		t.Errorf("of %d words only %d are said to be traced", len(words), len(shown))
	}
	for name, text := range wordJobs {
		ask := func(w word) (Peak, bool, error) {
			job := map[string]any{"training": map[string]any{}}
			if err := json.Unmarshal([]byte(text), &job); err != nil {
				t.Fatal(err)
			}
			w.put(job)
			return answered(t, job)
		}
		done := map[string][]Peak{} // by field: what its traced words make of the job, and leaving it out
		for _, w := range words {
			if done[w.pointer] == nil {
				if peak, _, err := ask(word{w.pointer, ""}); err == nil {
					done[w.pointer] = append(done[w.pointer], peak)
				}
			}
			if shown[w] {
				if peak, _, err := ask(w); err == nil {
					done[w.pointer] = append(done[w.pointer], peak)
				}
			}
		}
		for _, w := range words {
			if shown[w] {
				continue
			}
			with, doubted, err := ask(w)
			if err == nil && !doubted && !slices.Contains(done[w.pointer], with) {
				t.Errorf("%s of %s, which no trace has, changes the answer to the job %q and is in no doubt", w.value,
					w.pointer, name)
			}
		}
	}
}
