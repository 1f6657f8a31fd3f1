package api_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/decision"
)

func TestAdmissionRecords(t *testing.T) {
	c := webhook(t, realAPI)
	request := ask(t, batchJob(tooLarge, pods(rtx4070, "nvidia.com/gpu", 1)))
	dry := *request
	yes := true
	dry.DryRun = &yes
	if r := c.review(t, "/enforce", &dry); r.Allowed || r.AuditAnnotations["decision-id"] != "" {
		t.Errorf("a dry run: %+v", r)
	}
	if strings.Contains(c.log.String(), `"message":"decision"`) {
		t.Errorf("a dry run was recorded: %s", c.log)
	}
	request.UserInfo.Username = "ada"
	id := c.review(t, "/enforce", request).AuditAnnotations["decision-id"]
	var line struct{ Decision decision.Record }
	for text := range strings.Lines(c.log.String()) {
		if strings.Contains(text, `"message":"decision"`) {
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := line.Decision
	if d.ID != id || id == "" || d.Mode != decision.Enforce || d.Action != "deny" || d.Verdict != "does_not_fit" ||
		d.User != "ada" ||
		d.Workload != "Job team-a/train" || d.Versions == nil || d.JobDigest != decision.Digest(d.Job) ||
		d.DeviceBytes == 0 {
		t.Errorf("record %+v, want one with id %q", d, id)
	}
	// What was recorded gives the same answer again.
	status, answer := c.send(t, "/v1/estimate", d.Job)
	var again estimator.Result
	if err := json.Unmarshal(answer, &again); err != nil || status != http.StatusOK ||
		again.Peak.DeviceBytes != d.DeviceBytes || again.Versions != *d.Versions {
		t.Errorf("replayed: %d %s", status, answer)
	}
	res, err := c.client.Get(c.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	metrics, err := io.ReadAll(res.Body)
	if want := `vramplan_decisions_total{endpoint="admission",mode="enforce",verdict="does_not_fit"} 1`; err != nil ||
		!strings.Contains(string(metrics), want) {
		t.Errorf("%q is not in the metrics", want)
	}
}

// Whatever happens to vramplan, the workload is let in, and its user told.
func TestAdmissionFaults(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for _, tt := range []struct {
		name     string
		estimate func(context.Context, estimator.Job) (*estimator.Result, error)
		says     string
	}{
		{"failing", func(context.Context, estimator.Job) (*estimator.Result, error) {
			return nil, errors.New("secret")
		}, "not checked: vramplan failed"},
		{"panicking", func(context.Context, estimator.Job) (*estimator.Result, error) {
			panic("secret")
		}, "not checked: vramplan failed"},
		{"slow", func(context.Context, estimator.Job) (*estimator.Result, error) {
			<-release
			return nil, nil
		}, "not checked: vramplan had no answer in time"},
		{"unavailable", func(context.Context, estimator.Job) (*estimator.Result, error) {
			return nil, &service.Error{Code: service.CodeUnavailable, Message: "secret"}
		}, "not checked: vramplan failed"},
		{"without an answer", func(context.Context, estimator.Job) (*estimator.Result, error) {
			return &estimator.Result{}, nil
		}, "not checked: neither"},
		{"with half an answer", func(context.Context, estimator.Job) (*estimator.Result, error) {
			return nil, nil
		}, "not checked: an internal error of vramplan"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := webhook(t, func(o api.Options) *api.API {
				o.AdmissionTimeout = 0
				return askedAPI(o, tt.estimate)
			})
			for _, mode := range []string{"/audit", "/warn", "/enforce", ""} {
				r := c.review(t, mode, ask(t, batchJob(tooLarge, pods(rtx4070, "nvidia.com/gpu", 1))))
				said := strings.Join(r.Warnings, "\n")
				if !r.Allowed || r.AuditAnnotations["verdict"] != "none" || r.AuditAnnotations["reason"] == "" ||
					mode == "/audit" && said != "" || mode != "/audit" && !strings.Contains(said, tt.says) ||
					strings.Contains(said, "secret") {
					t.Errorf("mode %q: %+v", mode, r)
				}
			}
		})
	}
}

// unnamed is a service that fails where names are looked up.
type unnamed struct{ *service.Service }

func (unnamed) GPUVariants(string) ([]string, error) { panic("secret") }

// A fault outside the estimate, in the reading of the workload itself, lets it in, too.
func TestAdmissionWhereReadingFails(t *testing.T) {
	c := webhook(t, func(o api.Options) *api.API { return api.New(unnamed{service.New(service.EmbeddedCatalog())}, o) })
	r := c.review(t, "/enforce", ask(t, batchJob(tooLarge, pods(rtx4070, "nvidia.com/gpu", 1))))
	if !r.Allowed || strings.Join(r.Warnings, "") != "vramplan: not checked: an internal error of vramplan" {
		t.Errorf("%+v", r)
	}
}

// What is no review is refused as such; the API server then does what failurePolicy says.
func TestAdmissionOfOtherThings(t *testing.T) {
	c := webhook(t, realAPI)
	review := func(v string) string {
		return fmt.Sprintf(`{"apiVersion": %q, "kind": "AdmissionReview", "request": {"uid": "u", "operation": "CREATE", "object": null}}`, v)
	}
	for _, tt := range []struct {
		name, path, body string
		status           int
	}{
		{"the least that there can be", "", review("admission.k8s.io/v1"), http.StatusOK},
		{"an older version", "", review("admission.k8s.io/v1beta1"), http.StatusBadRequest},
		{"another kind", "", `{"apiVersion": "admission.k8s.io/v1", "kind": "Job"}`, http.StatusBadRequest},
		{"no request", "", `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}`, http.StatusBadRequest},
		{"no uid", "", `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}`,
			http.StatusBadRequest},
		{"half of one", "", `{"apiVersion": "admission.k8s.io/v1", "kind": "Admiss`, http.StatusBadRequest},
		{"nothing", "", ``, http.StatusBadRequest},
		{"a list", "", `[]`, http.StatusBadRequest},
		{"deeper than any", "", strings.Repeat(`{"request":`, 100000), http.StatusBadRequest},
		{"three megabytes", "", strings.Replace(review("admission.k8s.io/v1"), "null", `{"x": "`+
			strings.Repeat("x", 3<<20)+`"}`, 1), http.StatusOK},
		{"too large", "", review("admission.k8s.io/v1") + strings.Repeat(" ", 8<<20), http.StatusRequestEntityTooLarge},
		{"an unknown mode", "/strict", review("admission.k8s.io/v1"), http.StatusNotFound},
	} {
		if status, answer := c.send(t, "/v1/admission/kubernetes"+tt.path, []byte(tt.body)); status != tt.status {
			t.Errorf("%s: status %d, want %d: %.200s", tt.name, status, tt.status, answer)
		}
	}
}

// A client that trusts another CA does not speak to the service at all.
func TestAdmissionNeedsTheRightCA(t *testing.T) {
	c := webhook(t, realAPI)
	other, _ := authority(t)
	roots := x509.NewCertPool()
	roots.AddCert(other)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	res, err := client.Get(c.url + "/healthz")
	if err == nil {
		res.Body.Close()
		t.Error("a certificate of another CA was taken")
	}
}

// BenchmarkAdmission reviews jobs that were seen before, over TLS on loopback.
func BenchmarkAdmission(b *testing.B) {
	c := webhook(b, func(o api.Options) *api.API { o.Logger = nil; return realAPI(o) })
	for _, bb := range []struct{ name, document string }{{"fits", small}, {"refused", tooLarge}} {
		b.Run(bb.name, func(b *testing.B) {
			request := ask(b, batchJob(bb.document, pods(rtx4070, "nvidia.com/gpu", 1)))
			for b.Loop() {
				c.review(b, "/enforce", request)
			}
		})
	}
}

// BenchmarkAdmissionRate sends 100 reviews a second, each of a job that nobody asked about before, and
// reports how long they took from the moment at which they were due. Run it for some seconds: -benchtime 1000x.
func BenchmarkAdmissionRate(b *testing.B) {
	c := webhook(b, func(o api.Options) *api.API { o.Logger = nil; return realAPI(o) })
	c.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 16
	took := make([]time.Duration, b.N)
	var all sync.WaitGroup
	began := time.Now()
	for i := range b.N {
		document := strings.Replace([]string{small, tooLarge}[i%2], `"training": {`,
			fmt.Sprintf(`"reserve_bytes": %d, "training": {`, i), 1)
		request := ask(b, batchJob(document, pods(rtx4070, "nvidia.com/gpu", 1)))
		due := began.Add(time.Duration(i) * 10 * time.Millisecond)
		time.Sleep(time.Until(due))
		all.Go(func() {
			c.review(b, "/enforce", request)
			took[i] = time.Since(due)
		})
	}
	all.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[b.N/2].Microseconds())/1e3, "ms/median")
	b.ReportMetric(float64(took[b.N*99/100].Microseconds())/1e3, "ms/p99")
}
