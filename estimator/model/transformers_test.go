package model

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/undescribed"
)

var update = flag.Bool("update", false, "write the golden files anew")

// recorded is a line of testdata/transformers/*.jsonl.gz; record.py there says what its fields are.
type recorded struct {
	ModelType  string         `json:"model_type"`
	Class      string         `json:"class"`
	Config     map[string]any `json:"config"`
	Parameters int64          `json:"parameters"`
	Error      string         `json:"error"`
	Changed    [][3]any       `json:"changed"`
}

func readRecorded(t *testing.T, name string) []recorded {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata/transformers", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 8<<20)
	var all []recorded
	for lines.Scan() {
		var r recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// answer reads a configuration with what of it is changed.
func (r *recorded) answer(t *testing.T, changes map[string]any) (arch.Architecture, error) {
	t.Helper()
	config := maps.Clone(r.Config)
	maps.Copy(config, changes)
	if r.Class != "" && config["architectures"] == nil {
		config["architectures"] = []string{r.Class}
	}
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	var errs invalid.List
	a := FromHF(raw, "/model/hf_config", &errs)
	return a, errs.Err()
}

// TestCausalModelsOfTransformers: of the default configuration of every causal language model of transformers 5.23, and
// of some published sizes, the parameters are exact or it is refused. The golden file says which.
func TestCausalModelsOfTransformers(t *testing.T) {
	var got strings.Builder
	types := map[string]bool{}
	for _, r := range readRecorded(t, "causal.jsonl.gz") {
		types[r.ModelType] = true
		if r.Config == nil {
			continue // the class has no default
		}
		a, err := r.answer(t, nil)
		switch {
		case err != nil:
			reason, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "the job is not valid: "), "; described are")
			got.WriteString(r.ModelType + ": refused: " + reason + "\n")
		case r.Error != "": // where a number is null that it does not work out
			got.WriteString(r.ModelType + ": answered; transformers fails to build it\n")
		case a.ParameterCount() != r.Parameters:
			t.Errorf("%s has %d parameters, not %d", r.ModelType, r.Parameters, a.ParameterCount())
		default:
			got.WriteString(r.ModelType + ": exact\n")
		}
	}
	if len(types) != 188 {
		t.Errorf("%d model types, want 188", len(types))
	}
	golden(t, "testdata/transformers/causal.txt", got.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestKeysOfTransformers changes every key of those configurations, one at a time.
func TestKeysOfTransformers(t *testing.T) {
	exact := map[string]int{}
	for _, r := range readRecorded(t, "keys.jsonl.gz") {
		for _, row := range r.Changed {
			key, changes := row[0].(string), row[1].(map[string]any)
			a, err := r.answer(t, changes)
			if err != nil {
				continue
			}
			if key == "tie_word_embeddings" && slices.Contains(twoBiases, r.ModelType) {
				continue // transformers 5 has two biases of the head then, and 4.57, which is replayed, has one
			}
			if key == "use_bias" && r.ModelType == "ernie4_5_moe" {
				continue // experts of transformers 5 have no biases then; those of 4.57, which are replayed, have
			}
			if want := int64(row[2].(float64)); a.ParameterCount() != want {
				t.Errorf("%s with %v (%s) has %d parameters, not %d", r.ModelType, changes, key, want,
					a.ParameterCount())
			}
			exact[r.ModelType]++
		}
	}
	for _, kind := range slices.Concat(Families(), slices.Collect(maps.Keys(undescribed.PlainDecoders))) {
		if exact[kind] < 10 && !slices.Contains(notCausal, kind) {
			t.Errorf("of %s, %d keys were changed and answered", kind, exact[kind])
		}
	}
}

// twoBiases are the encoders whose head for masked words has a bias of its own and one of its last layer.
var twoBiases = []string{"bert", "roberta", "xlm-roberta", "camembert"}

// notCausal are the described families of which AutoModelForCausalLM has no class, or another one than is described, or
// one that is described in other sizes than its default.
var notCausal = []string{"albert", "bart", "clip", "deberta-v2", "deepseek_v2", "distilbert", "electra", "gemma3", "granitemoehybrid", "internlm2", "lfm2_moe",
	"llava", "mbart", "modernbert", "mpnet", "mt5", "paligemma", "qwen2_5_vl", "qwen2_vl", "smolvlm", "t5", "vit", "whisper"}

// TestNamesThatNobodyKnows: read under another name, the families of transformers are refused, or have parameters that
// the doubt about such names covers.
func TestNamesThatNobodyKnows(t *testing.T) {
	answered := 0
	for _, r := range readRecorded(t, "causal.jsonl.gz") {
		if r.Config == nil || r.Error != "" {
			continue
		}
		a, err := r.answer(t, map[string]any{"model_type": "borealis",
			"architectures": []string{"BorealisForCausalLM"}})
		if err != nil {
			continue
		}
		answered++
		if off := float64(r.Parameters)/float64(a.ParameterCount()) - 1; off < -0.10 || off > 0.25 || !a.Uncounted {
			t.Errorf("%s has %+.1f %% more parameters than were counted", r.ModelType, 100*off)
		} else if off < -0.004 || off > 0.004 {
			t.Logf("%s has %+.1f %% more parameters than were counted", r.ModelType, 100*off)
		}
	}
	t.Logf("%d are answered", answered)
	if answered < 40 {
		t.Errorf("%d are answered", answered)
	}
}
