package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/api"
)

// A line of verdicts alone has the device figure and the verdicts of the whole one, and nothing else.
func TestVerdictsBatch(t *testing.T) {
	h := newAPI(api.Options{})
	for _, gib := range []int64{4, 10, 12, 80} {
		job := fmt.Sprintf(`{"model":{"preset":"gpt2"},"training":{"micro_batch":16,"sequence_length":1024},"gpus":[{"name":"mine","memory_bytes":%d}]}`, gib<<30)
		var whole, alone struct {
			Peak struct {
				DeviceBytes int64 `json:"device_bytes"`
			} `json:"peak"`
			GPUs []struct {
				GPU           string `json:"gpu"`
				UsableBytes   int64  `json:"usable_bytes"`
				HeadroomBytes int64  `json:"headroom_bytes"`
				Verdict       string `json:"verdict"`
			} `json:"gpus"`
		}
		if err := json.Unmarshal([]byte(read(t, do(h, http.MethodPost, "/v1/estimate", "application/json", job))),
			&whole); err != nil {
			t.Fatal(err)
		}
		line := read(t, do(h, http.MethodPost, "/v1/estimate/batch?verdicts=true", "application/x-ndjson", job+"\n"))
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&alone); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if diff := cmp.Diff(whole, alone); diff != "" || len(alone.GPUs) != 1 || alone.Peak.DeviceBytes == 0 {
			t.Errorf("verdicts alone differ (-whole +alone):\n%s\n%s", diff, line)
		}
	}
	if res := do(h, http.MethodPost, "/v1/estimate/batch?at_least=true", "application/x-ndjson", "{}"); res.StatusCode != http.StatusBadRequest {
		t.Errorf("at_least without verdicts is answered with %d", res.StatusCode)
	}
	if res := do(h, http.MethodPost, "/v1/estimate/batch?verdicts=perhaps", "application/x-ndjson", "{}"); res.StatusCode != http.StatusBadRequest {
		t.Errorf("verdicts=perhaps is answered with %d", res.StatusCode)
	}
}

// With at_least a job that fits nowhere says the least that it takes, and no verdict is another; one that may fit is
// answered as without it.
func TestVerdictsAtLeast(t *testing.T) {
	h := newAPI(api.Options{})
	type answer struct {
		Peak struct {
			DeviceBytes int64 `json:"device_bytes"`
			AtLeast     bool  `json:"at_least"`
		} `json:"peak"`
		GPUs []struct {
			Verdict string `json:"verdict"`
		} `json:"gpus"`
	}
	ask := func(query, job string) (a answer) {
		line := read(t, do(h, http.MethodPost, "/v1/estimate/batch?"+query, "application/x-ndjson", job+"\n"))
		if err := json.Unmarshal([]byte(line), &a); err != nil || len(a.GPUs) == 0 {
			t.Fatalf("%v in %s", err, line)
		}
		return a
	}
	marked := 0
	for gib := int64(2); gib <= 40; gib += 2 {
		for _, more := range []string{"", `,"rtx-4090"`} {
			job := fmt.Sprintf(`{"model":{"preset":"gpt2"},"training":{"micro_batch":16,"sequence_length":1024},"gpus":[{"name":"mine","memory_bytes":%d}%s]}`, gib<<30, more)
			whole, least := ask("verdicts=true", job), ask("verdicts=true&at_least=true", job)
			if diff := cmp.Diff(whole.GPUs, least.GPUs); diff != "" {
				t.Errorf("%d GiB: other verdicts (-without +with):\n%s", gib, diff)
			}
			switch {
			case least.Peak.AtLeast:
				marked++
				if least.Peak.DeviceBytes > whole.Peak.DeviceBytes ||
					least.Peak.DeviceBytes < whole.Peak.DeviceBytes/2 {
					t.Errorf("%d GiB: at least %d of %d", gib, least.Peak.DeviceBytes, whole.Peak.DeviceBytes)
				}
				for _, g := range least.GPUs {
					if g.Verdict != "does_not_fit" {
						t.Errorf("%d GiB: at least, and %s", gib, g.Verdict)
					}
				}
			case least.Peak != whole.Peak:
				t.Errorf("%d GiB: %d, and without at_least %d", gib, least.Peak.DeviceBytes, whole.Peak.DeviceBytes)
			}
		}
	}
	if marked < 5 || marked > 30 {
		t.Errorf("%d of 40 answers are at least", marked)
	}
}
