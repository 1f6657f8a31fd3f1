// Package kubernetes_test reads the manifests of this directory as an API server would. What kustomize makes of them
// with the service is tested in deploy/check.
package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/service"
)

// documents are the objects in a file, by kind.
func documents(t *testing.T, file string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		var meta metav1.TypeMeta
		if err := sigsyaml.Unmarshal([]byte(part), &meta); err != nil {
			t.Fatal(err)
		}
		found[meta.Kind] = []byte(part)
	}
	return found
}

// strictly reads an object and refuses fields that its type does not have.
func strictly(t *testing.T, text []byte, object any) {
	t.Helper()
	if len(text) == 0 {
		t.Fatalf("there is no %T", object)
	}
	if err := sigsyaml.UnmarshalStrict(text, object); err != nil {
		t.Fatalf("%T: %v", object, err)
	}
}

// What keeps a cluster working whatever becomes of the service.
func TestWebhooksDoNoHarm(t *testing.T) {
	var c registrationv1.ValidatingWebhookConfiguration
	strictly(t, documents(t, "webhook.yaml")["ValidatingWebhookConfiguration"], &c)
	handler := api.New(service.New(service.EmbeddedCatalog()), api.Options{})
	modes := map[string]int{}
	for _, w := range c.Webhooks {
		if *w.FailurePolicy != registrationv1.Ignore || *w.TimeoutSeconds != 1 ||
			*w.SideEffects != registrationv1.SideEffectClassNoneOnDryRun || !slices.Equal(w.AdmissionReviewVersions,
			[]string{"v1"}) {
			t.Errorf("%s: failurePolicy %s, timeoutSeconds %d, sideEffects %s, versions %v", w.Name, *w.FailurePolicy,
				*w.TimeoutSeconds, *w.SideEffects, w.AdmissionReviewVersions)
		}
		mode := w.NamespaceSelector.MatchLabels["vramplan.dev/mode"]
		if path := *w.ClientConfig.Service.Path; mode == "" || path != "/v1/admission/kubernetes/"+mode {
			t.Errorf("%s asks %s about namespaces in mode %q", w.Name, path, mode)
		}
		modes[mode]++
		res := httptest.NewRecorder()
		handler.ServeHTTP(res, review(*w.ClientConfig.Service.Path, []byte("{}")))
		if res.Code != http.StatusBadRequest {
			t.Errorf("%s: %s answers what is no review with %d", w.Name, *w.ClientConfig.Service.Path, res.Code)
		}
		for _, r := range w.Rules {
			if slices.Contains(r.Resources, "pods") &&
				(w.ObjectSelector == nil || w.ObjectSelector.MatchLabels["vramplan.dev/check"] != "true") {
				t.Errorf("%s asks about every pod", w.Name)
			}
		}
	}
	if len(modes) != 3 || modes["audit"] != 2 || modes["warn"] != 2 || modes["enforce"] != 2 {
		t.Errorf("webhooks by mode: %v", modes)
	}
}

// The example is a job that fits, and the annotation in it is a job document.
func TestExampleJobIsAdmitted(t *testing.T) {
	var job batchv1.Job
	strictly(t, documents(t, "job.yaml")["Job"], &job)
	object, err := json.Marshal(&job)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{UID: "u", Operation: admissionv1.Create, Namespace: "team-a",
			Kind:   metav1.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"},
			Object: runtime.RawExtension{Raw: object}},
	})
	if err != nil {
		t.Fatal(err)
	}
	res := httptest.NewRecorder()
	api.New(service.New(service.EmbeddedCatalog()), api.Options{}).ServeHTTP(res,
		review("/v1/admission/kubernetes/enforce", body))
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(res.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	if !answer.Response.Allowed || answer.Response.AuditAnnotations["verdict"] != "fits" {
		t.Errorf("the example: %s", res.Body)
	}
}

// review is a request as an API server sends it.
func review(path string, body []byte) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}
