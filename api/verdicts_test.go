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
	if res := do(h, http.MethodPost, "/v1/estimate/batch?verdicts=perhaps", "application/x-ndjson", "{}"); res.StatusCode != http.StatusBadRequest {
		t.Errorf("verdicts=perhaps is answered with %d", res.StatusCode)
	}
}
