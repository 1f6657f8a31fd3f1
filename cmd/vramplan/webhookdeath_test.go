package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// reviewOf is a review of a pod on a 12 GB card, which GPT-2 fits with micro-batches of 4 and not with 16. Reserved
// bytes make it one that nobody asked about before.
func reviewOf(micro, reserved int) string {
	document := fmt.Sprintf(`{"model": {"preset": "nanogpt/train_gpt2"}, "reserve_bytes": %d, "training": {"micro_batch": %d}}`,
		reserved, micro)
	quoted, _ := json.Marshal(document)
	return fmt.Sprintf(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u%d",
		"operation": "CREATE", "namespace": "team-a", "kind": {"group": "", "version": "v1", "kind": "Pod"},
		"object": {"metadata": {"name": "p", "annotations": {"vramplan.dev/job": %s}},
		"spec": {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4070"},
		"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}}}`, reserved, quoted)
}

// TestWebhookDies kills a service again and again while it answers reviews. The API server then has a whole answer,
// with the verdict that it would have had without the death, or none, where failurePolicy lets the workload in; never
// half of one, and never another one.
func TestWebhookDies(t *testing.T) {
	database := "file:" + filepath.Join(t.TempDir(), "vramplan.db")
	draw := rand.New(rand.NewPCG(1, 2))
	var answered, cut int
	for round := range 6 {
		service := startService(t, database, t.TempDir())
		var mu sync.Mutex
		var all sync.WaitGroup
		stop := make(chan struct{})
		for asker := range 4 {
			all.Go(func() {
				c := newClient()
				defer c.CloseIdleConnections()
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					micro := 4 << (i % 2 * 2)
					reserved := round*1_000_000 + asker*100_000 + i
					r := ask(c, http.MethodPost, service.url+"/v1/admission/kubernetes/enforce", reviewOf(micro, reserved))
					if r.err != nil {
						mu.Lock()
						cut++
						mu.Unlock()
						return
					}
					var review struct {
						Response *struct {
							UID              string
							Allowed          bool
							AuditAnnotations map[string]string
						}
					}
					if err := json.Unmarshal(r.body, &review); err != nil || r.status != http.StatusOK ||
						review.Response == nil || review.Response.UID != fmt.Sprint("u", reserved) {
						t.Errorf("neither an answer nor none: %d %.200s (%v)", r.status, r.body, err)
						return
					}
					verdict := review.Response.AuditAnnotations["verdict"]
					if verdict != "none" && review.Response.Allowed != (micro == 4) ||
						verdict == "none" && !review.Response.Allowed {
						t.Errorf("micro-batch %d: %.400s", micro, r.body)
					}
					mu.Lock()
					answered++
					mu.Unlock()
				}
			})
		}
		time.Sleep(time.Duration(100+draw.IntN(200)) * time.Millisecond)
		service.kill()
		close(stop)
		all.Wait()
	}
	if answered == 0 || cut == 0 {
		t.Fatalf("%d reviews were answered and %d cut off: the service did not die in the middle of them", answered, cut)
	}
	t.Logf("%d reviews answered, %d cut off", answered, cut)
}

// A page of somebody else on the service's address is no judge: check judges by itself, with the same exit code, and
// says so.
func TestCheckAndForeignServers(t *testing.T) {
	for name, page := range map[string]string{
		"nothing in it": `{}`, "another program's": `{"status": "ok", "version": "1.2"}`, "a list": `[]`, "a word": `"fits"`,
		"a page": "<html>welcome</html>", "empty": "", "null": "null",
		"a verdict without a peak": `{"gpus": [{"gpu": "rtx-4070", "verdict": "fits"}]}`,
		"no verdict":               `{"versions": {"estimator": "1"}, "peak": {"device_bytes": 1, "low_bytes": 1}}`,
		"a verdict of its own": `{"versions": {"estimator": "1"}, "peak": {"device_bytes": 1, "low_bytes": 1},
			"gpus": [{"gpu": "rtx-4070", "verdict": "sure"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, page)
			}))
			defer foreign.Close()
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), []string{"check", "--model", "nanogpt/train_gpt2", "--micro-batch", "16",
				"--gpu", "rtx-4070", "--server", foreign.URL, "--timeout", "10s"}, strings.NewReader(""), &stdout, &stderr, nil)
			if code != 1 || !strings.Contains(stdout.String(), "does not fit") ||
				!strings.Contains(stderr.String(), "so this was worked out here") {
				t.Errorf("exit %d\n%s%s", code, &stdout, &stderr)
			}
		})
	}
}
