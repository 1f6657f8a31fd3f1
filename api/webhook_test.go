package api_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/service"
)

// GPT-2 124M needs 18.6 GiB with micro-batches of 16 and 7.1 GiB with 4.
const (
	tooLarge = `{"model": {"preset": "nanogpt/train_gpt2"}, "training": {"micro_batch": 16, "gradient_accumulation": 32, "optimizer": {"name": "adamw", "implementation": "fused"}}}`
	small    = `{"model": {"preset": "nanogpt/train_gpt2"}, "training": {"micro_batch": 4}}`
	rtx4070  = "NVIDIA-GeForce-RTX-4070"
)

// pods is a pod template with one container that asks for GPUs of a product.
func pods(product, resourceName string, n int64) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "train", Image: "train:1", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceName(resourceName): *resource.NewQuantity(n, resource.DecimalSI),
				corev1.ResourceMemory: resource.MustParse("64Gi")},
		}}},
	}}
	if product != "" {
		t.Spec.NodeSelector = map[string]string{"nvidia.com/gpu.product": product}
	}
	return t
}

func described(document string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "train", Namespace: "team-a",
		Annotations: map[string]string{"vramplan.dev/job": document}}
}

func batchJob(document string, template corev1.PodTemplateSpec) *batchv1.Job {
	return &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: described(document),
		Spec: batchv1.JobSpec{Template: template}}
}

// custom is an object of a kind whose types are elsewhere.
func custom(apiVersion, kind, document string, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": described(document), "spec": spec}
}

// ask is the review of an object that is created.
func ask(t testing.TB, object any) *admissionv1.AdmissionRequest {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var meta metav1.TypeMeta
	if err := json.Unmarshal(raw, &meta); err != nil {
		t.Fatal(err)
	}
	kind := meta.GroupVersionKind()
	return &admissionv1.AdmissionRequest{
		UID: types.UID("705ab4f5-6393-11e8-b7cc-42010a800002"), Kind: metav1.GroupVersionKind{Group: kind.Group,
			Version: kind.Version, Kind: kind.Kind},
		Name: "train", Namespace: "team-a", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
	}
}

// cluster is an API server's side of a webhook: it trusts one CA and nothing else.
type cluster struct {
	url    string
	client *http.Client
	log    *bytes.Buffer
}

// webhook serves an API over TLS.
func webhook(t testing.TB, serve func(o api.Options) *api.API) *cluster {
	t.Helper()
	c := &cluster{log: new(bytes.Buffer)}
	log := zerolog.New(zerolog.SyncWriter(c.log))
	// Only the test of a slow service is about time.
	server := httptest.NewUnstartedServer(serve(api.Options{Logger: &log, AdmissionTimeout: time.Minute}))
	ca, certificate := authority(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	c.url = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	c.client = &http.Client{Timeout: 20 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	t.Cleanup(c.client.CloseIdleConnections)
	return c
}

func realAPI(o api.Options) *api.API { return api.New(service.New(service.EmbeddedCatalog()), o) }

// authority makes a CA and a certificate of it for localhost.
func authority(t testing.TB) (*x509.Certificate, tls.Certificate) {
	t.Helper()
	sign := func(template, parent *x509.Certificate, public any, key any) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	from, until := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	caKey, leafKey := key(), key()
	caTemplate := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's CA"},
		NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	ca := sign(caTemplate, caTemplate, &caKey.PublicKey, caKey)
	leaf := sign(&x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: until,
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, ca,
		&leafKey.PublicKey, caKey)
	return ca, tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: leafKey}
}

// send posts bytes and returns the status and the body.
func (c *cluster) send(t testing.TB, path string, body []byte) (int, []byte) {
	t.Helper()
	res, err := c.client.Post(c.url+path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, answer
}

// review asks in a mode and holds the answer against what the API server expects of any.
func (c *cluster) review(t testing.TB, mode string,
	request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1",
		Kind: "AdmissionReview"}, Request: request})
	if err != nil {
		t.Fatal(err)
	}
	status, answer := c.send(t, "/v1/admission/kubernetes"+mode, body)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, answer)
	}
	var review admissionv1.AdmissionReview
	strict := json.NewDecoder(bytes.NewReader(answer))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&review); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	r := review.Response
	switch {
	case review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" || r == nil ||
		r.UID != request.UID:
		t.Fatalf("not an answer to the review: %s", answer)
	case r.Patch != nil:
		t.Errorf("the object is changed: %s", answer)
	case !r.Allowed && (r.Result == nil || r.Result.Message == "" || r.Result.Code != http.StatusForbidden):
		t.Errorf("refused without a reason: %s", answer)
	}
	for _, w := range r.Warnings {
		if len(w) > 120 || strings.HasPrefix(w, "Warning:") || strings.ContainsFunc(w, func(c rune) bool {
			return c < ' ' || c > '~'
		}) {
			t.Errorf("warning of %d characters: %q", len(w), w)
		}
	}
	return r
}
