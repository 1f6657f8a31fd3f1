package api_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
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
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/decision"
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
			Limits: corev1.ResourceList{corev1.ResourceName(resourceName): *resource.NewQuantity(n, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Gi")},
		}}},
	}}
	if product != "" {
		t.Spec.NodeSelector = map[string]string{"nvidia.com/gpu.product": product}
	}
	return t
}

func described(document string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: "train", Namespace: "team-a", Annotations: map[string]string{"vramplan.dev/job": document}}
}

func batchJob(document string, template corev1.PodTemplateSpec) *batchv1.Job {
	return &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: described(document), Spec: batchv1.JobSpec{Template: template}}
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
		UID: types.UID("705ab4f5-6393-11e8-b7cc-42010a800002"), Kind: metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
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
	c.client = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
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
	caTemplate := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a test's CA"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	ca := sign(caTemplate, caTemplate, &caKey.PublicKey, caKey)
	leaf := sign(&x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: until, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, ca, &leafKey.PublicKey, caKey)
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
func (c *cluster) review(t testing.TB, mode string, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request})
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
	case review.APIVersion != "admission.k8s.io/v1" || review.Kind != "AdmissionReview" || r == nil || r.UID != request.UID:
		t.Fatalf("not an answer to the review: %s", answer)
	case r.Patch != nil:
		t.Errorf("the object is changed: %s", answer)
	case !r.Allowed && (r.Result == nil || r.Result.Message == "" || r.Result.Code != http.StatusForbidden):
		t.Errorf("refused without a reason: %s", answer)
	}
	for _, w := range r.Warnings {
		if len(w) > 120 || strings.HasPrefix(w, "Warning:") || strings.ContainsFunc(w, func(c rune) bool { return c < ' ' || c > '~' }) {
			t.Errorf("warning of %d characters: %q", len(w), w)
		}
	}
	return r
}

// Every kind of workload, as its controller's API has it.
func TestAdmissionOfEveryKind(t *testing.T) {
	c := webhook(t, realAPI)
	kinds := map[string]func(document string, template corev1.PodTemplateSpec) any{
		"Job": func(d string, p corev1.PodTemplateSpec) any { return batchJob(d, p) },
		"CronJob": func(d string, p corev1.PodTemplateSpec) any {
			return &batchv1.CronJob{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"}, ObjectMeta: described(d),
				Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: p}}}}
		},
		"Pod": func(d string, p corev1.PodTemplateSpec) any {
			return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: described(d), Spec: p.Spec}
		},
		"JobSet": func(d string, p corev1.PodTemplateSpec) any {
			return custom("jobset.x-k8s.io/v1alpha2", "JobSet", d, map[string]any{"replicatedJobs": []any{
				map[string]any{"name": "loader", "template": map[string]any{"spec": batchv1.JobSpec{}}},
				map[string]any{"name": "train", "replicas": 1, "template": map[string]any{"spec": batchv1.JobSpec{Template: p}}}}})
		},
		"PyTorchJob": func(d string, p corev1.PodTemplateSpec) any {
			return custom("kubeflow.org/v1", "PyTorchJob", d, map[string]any{"pytorchReplicaSpecs": map[string]any{"Master": map[string]any{"replicas": 1, "template": p}}})
		},
		"TrainJob": func(d string, p corev1.PodTemplateSpec) any {
			return custom("trainer.kubeflow.org/v1alpha1", "TrainJob", d, map[string]any{
				"runtimeRef": map[string]any{"name": "torch-distributed"}, "trainer": map[string]any{"numNodes": 1, "resourcesPerNode": p.Spec.Containers[0].Resources},
				"podTemplateOverrides": []any{map[string]any{"targetJobs": []any{map[string]any{"name": "node"}}, "spec": map[string]any{"nodeSelector": p.Spec.NodeSelector, "affinity": p.Spec.Affinity}}}})
		},
		"RayJob": func(d string, p corev1.PodTemplateSpec) any {
			return custom("ray.io/v1", "RayJob", d, map[string]any{"entrypoint": "python train.py", "rayClusterSpec": map[string]any{
				"headGroupSpec": map[string]any{"template": corev1.PodTemplateSpec{}}, "workerGroupSpecs": []any{map[string]any{"replicas": 1, "groupName": "w", "template": p}}}})
		},
	}
	for kind, object := range kinds {
		t.Run(kind, func(t *testing.T) {
			p := pods(rtx4070, "nvidia.com/gpu", 1)
			if r := c.review(t, "/enforce", ask(t, object(small, p))); !r.Allowed || len(r.Warnings) > 0 || r.AuditAnnotations["verdict"] != "fits" {
				t.Errorf("a job that fits: %+v", r)
			}
			r := c.review(t, "/enforce", ask(t, object(tooLarge, p)))
			if r.Allowed || r.AuditAnnotations["verdict"] != "does_not_fit" {
				t.Fatalf("a job that does not fit: %+v", r)
			}
			for _, part := range []string{"needs 18.6 GiB (18.3 GiB to 18.9 GiB)", "rtx-4070 has 11.7 GiB", "micro_batch 8 with gradient_accumulation 64 fits", "vramplan.dev/override: REASON", r.AuditAnnotations["decision-id"]} {
				if !strings.Contains(r.Result.Message, part) {
					t.Errorf("%q is not in %q", part, r.Result.Message)
				}
			}
			if r := c.review(t, "/warn", ask(t, object(tooLarge, p))); !r.Allowed || len(r.Warnings) != 2 {
				t.Errorf("the same with a warning: %+v", r)
			}
			if r := c.review(t, "/audit", ask(t, object(tooLarge, p))); !r.Allowed || len(r.Warnings) > 0 || r.AuditAnnotations["verdict"] != "does_not_fit" {
				t.Errorf("the same without a word: %+v", r)
			}
			update := ask(t, object(tooLarge, p))
			update.Operation, update.OldObject = admissionv1.Update, ask(t, object(small, p)).Object
			if r := c.review(t, "/enforce", update); r.Allowed {
				t.Errorf("an update to a job that does not fit: %+v", r)
			}
			update.OldObject = update.Object
			if r := c.review(t, "/enforce", update); !r.Allowed || len(r.AuditAnnotations) > 0 {
				t.Errorf("an update of something else: %+v", r)
			}
			dry, yes := ask(t, object(tooLarge, p)), true
			dry.DryRun = &yes
			if r := c.review(t, "/enforce", dry); r.Allowed || r.AuditAnnotations["decision-id"] != "" {
				t.Errorf("a dry run: %+v", r)
			}
			affine := pods("", "nvidia.com/gpu", 1)
			affine.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "zone", Operator: corev1.NodeSelectorOpExists},
					{Key: "nvidia.com/gpu.product", Operator: corev1.NodeSelectorOpIn, Values: []string{rtx4070, "NVIDIA-RTX-A4000"}}}}}}}}
			if r := c.review(t, "/enforce", ask(t, object(tooLarge, affine))); r.Allowed || r.AuditAnnotations["gpu"] != "rtx-a4000" {
				t.Errorf("on either of two cards that are too small: %+v", r)
			}
		})
	}
}

// What is not a job of somebody that was just described passes without a word.
func TestAdmissionPassesBy(t *testing.T) {
	c := webhook(t, realAPI)
	p := pods(rtx4070, "nvidia.com/gpu", 1)
	yes := true
	with := func(change func(*batchv1.Job)) *admissionv1.AdmissionRequest {
		j := batchJob(tooLarge, p)
		change(j)
		return ask(t, j)
	}
	asked := func(change func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionRequest {
		r := ask(t, batchJob(tooLarge, p))
		change(r)
		return r
	}
	now := metav1.Now()
	for name, request := range map[string]*admissionv1.AdmissionRequest{
		"no annotation": with(func(j *batchv1.Job) { j.Annotations = nil }),
		"made by a controller": with(func(j *batchv1.Job) {
			j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "c", UID: "u", Controller: &yes}}
		}),
		"on its way out": with(func(j *batchv1.Job) { j.DeletionTimestamp = &now }),
		"deleted": asked(func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.OldObject, r.Object = admissionv1.Delete, r.Object, runtime.RawExtension{}
		}),
		"a status":            asked(func(r *admissionv1.AdmissionRequest) { r.Operation, r.SubResource = admissionv1.Update, "status" }),
		"a namespace of k8s":  asked(func(r *admissionv1.AdmissionRequest) { r.Namespace = "kube-system" }),
		"another kind":        asked(func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "Deployment"; r.Kind.Group = "apps" }),
		"an unchanged update": asked(func(r *admissionv1.AdmissionRequest) { r.Operation, r.OldObject = admissionv1.Update, r.Object }),
		"an update of labels": asked(func(r *admissionv1.AdmissionRequest) {
			old := batchJob(tooLarge, p)
			old.Labels = map[string]string{"a": "b"}
			r.Operation, r.OldObject = admissionv1.Update, ask(t, old).Object
		}),
		"a connection": asked(func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Connect }),
	} {
		if r := c.review(t, "/enforce", request); !r.Allowed || len(r.Warnings) > 0 || len(r.AuditAnnotations) > 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if strings.Contains(c.log.String(), "decision_id") {
		t.Errorf("recorded: %s", c.log)
	}
}

func TestAdmissionOfUpdates(t *testing.T) {
	c := webhook(t, realAPI)
	before, after := ask(t, batchJob(small, pods(rtx4070, "nvidia.com/gpu", 1))), ask(t, batchJob(tooLarge, pods(rtx4070, "nvidia.com/gpu", 1)))
	after.Operation, after.OldObject = admissionv1.Update, before.Object
	if r := c.review(t, "/enforce", after); r.Allowed {
		t.Errorf("an update to a job that does not fit: %+v", r)
	}
	after.OldObject = ask(t, batchJob(tooLarge, pods("NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu", 1))).Object
	if r := c.review(t, "/enforce", after); r.Allowed {
		t.Errorf("an update to a card that is too small: %+v", r)
	}
}

// Cases in which a job that does not fit is let in, and what the user reads.
func TestAdmissionDoubts(t *testing.T) {
	c := webhook(t, realAPI)
	gpu := func(product string) corev1.PodTemplateSpec { return pods(product, "nvidia.com/gpu", 1) }
	override := batchJob(tooLarge, gpu(rtx4070))
	override.Annotations["vramplan.dev/override"] = "measured on a node"
	half := gpu("")
	half.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "nvidia.com/gpu.product", Operator: corev1.NodeSelectorOpIn, Values: []string{rtx4070}}}},
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpExists}}}}}}}
	for _, tt := range []struct {
		name   string
		object any
		says   string
	}{
		{"a reason", override, "overridden: measured on a node"},
		{"a card that is large enough among two", batchJob(tooLarge, gpu("a100")), ""},
		{"eight GPUs, of which the document does not speak", batchJob(tooLarge, pods(rtx4070, "nvidia.com/gpu", 8)), "8 GPUs"},
		{"no card", batchJob(tooLarge, gpu("")), "neither a node selector nor the job says which GPU it gets"},
		{"no card in one of the places where it may run", batchJob(tooLarge, half), "neither a node selector"},
		{"an unknown card", batchJob(tooLarge, gpu("NVIDIA-GeForce-RTX-9999")), "unknown GPU"},
		{"no GPU", batchJob(tooLarge, pods(rtx4070, "example.com/fpga", 1)), "no container has a limit for nvidia.com/gpu"},
		{"not JSON", batchJob("{", gpu(rtx4070)), "is not a JSON object"},
		{"not a job", batchJob(`{"model": {"preset": "gpt2"}, "trainin": {}}`, gpu(rtx4070)), "did you mean training"},
		{"an unknown model", batchJob(`{"model": {"preset": "gpt-7"}, "training": {"micro_batch": 1}}`, gpu(rtx4070)), "unknown model"},
		{"a spec that cannot be", map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": described(tooLarge), "spec": 5}, "spec cannot be read"},
	} {
		r := c.review(t, "/enforce", ask(t, tt.object))
		said := strings.Join(r.Warnings, "\n")
		if !r.Allowed || !strings.Contains(said, tt.says) || (tt.says == "") != (said == "") {
			t.Errorf("%s: allowed %v, says %q, want %q", tt.name, r.Allowed, said, tt.says)
		}
		if r := c.review(t, "/audit", ask(t, tt.object)); !r.Allowed || len(r.Warnings) > 0 || r.AuditAnnotations["verdict"] == "" {
			t.Errorf("%s in audit: %+v", tt.name, r)
		}
	}
}

// The card is known from the job's own list, from a slice, or from both.
func TestAdmissionCards(t *testing.T) {
	c := webhook(t, realAPI)
	onT4 := strings.Replace(tooLarge, "{", `{"gpus": ["t4"], `, 1)
	for _, tt := range []struct {
		name, document, product, resource, gpu, verdict string
	}{
		{"a slice of a card", tooLarge, "NVIDIA-A100-SXM4-80GB", "nvidia.com/mig-1g.10gb", "a100-sxm4-80gb-mig-1g.10gb", "does_not_fit"},
		{"a slice that fits", tooLarge, "NVIDIA-A100-SXM4-80GB", "nvidia.com/mig-2g.20gb", "a100-sxm4-80gb-mig-2g.20gb", "fits"},
		{"a slice as a product", tooLarge, "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "nvidia.com/gpu", "a100-sxm4-80gb-mig-1g.10gb", "does_not_fit"},
		{"the job's own card", onT4, "", "nvidia.com/gpu", "t4", "does_not_fit"},
		{"the node's before the job's", onT4, "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu", "h100-sxm5", "fits"},
	} {
		r := c.review(t, "/audit", ask(t, batchJob(tt.document, pods(tt.product, tt.resource, 1))))
		if r.AuditAnnotations["gpu"] != tt.gpu || r.AuditAnnotations["verdict"] != tt.verdict {
			t.Errorf("%s: %v, want %s on %s", tt.name, r.AuditAnnotations, tt.verdict, tt.gpu)
		}
	}
}

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
	if d.ID != id || id == "" || d.Mode != decision.Enforce || d.Action != "deny" || d.Verdict != "does_not_fit" || d.User != "ada" ||
		d.Workload != "Job team-a/train" || d.Versions == nil || d.JobDigest != decision.Digest(d.Job) || d.DeviceBytes == 0 {
		t.Errorf("record %+v, want one with id %q", d, id)
	}
	// What was recorded gives the same answer again.
	status, answer := c.send(t, "/v1/estimate", d.Job)
	var again estimator.Result
	if err := json.Unmarshal(answer, &again); err != nil || status != http.StatusOK || again.Peak.DeviceBytes != d.DeviceBytes || again.Versions != *d.Versions {
		t.Errorf("replayed: %d %s", status, answer)
	}
	res, err := c.client.Get(c.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	metrics, err := io.ReadAll(res.Body)
	if want := `vramplan_decisions_total{endpoint="admission",mode="enforce",verdict="does_not_fit"} 1`; err != nil || !strings.Contains(string(metrics), want) {
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
		{"failing", func(context.Context, estimator.Job) (*estimator.Result, error) { return nil, errors.New("secret") }, "not checked: vramplan failed"},
		{"panicking", func(context.Context, estimator.Job) (*estimator.Result, error) { panic("secret") }, "not checked: vramplan failed"},
		{"slow", func(context.Context, estimator.Job) (*estimator.Result, error) { <-release; return nil, nil }, "not checked: vramplan had no answer in time"},
		{"unavailable", func(context.Context, estimator.Job) (*estimator.Result, error) {
			return nil, &service.Error{Code: service.CodeUnavailable, Message: "secret"}
		}, "not checked: vramplan failed"},
		{"without an answer", func(context.Context, estimator.Job) (*estimator.Result, error) { return &estimator.Result{}, nil }, "not checked: neither"},
		{"with half an answer", func(context.Context, estimator.Job) (*estimator.Result, error) { return nil, nil }, "not checked: vramplan failed"},
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
					mode == "/audit" && said != "" || mode != "/audit" && !strings.Contains(said, tt.says) || strings.Contains(said, "secret") {
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
		{"no uid", "", `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {}}`, http.StatusBadRequest},
		{"half of one", "", `{"apiVersion": "admission.k8s.io/v1", "kind": "Admiss`, http.StatusBadRequest},
		{"nothing", "", ``, http.StatusBadRequest},
		{"a list", "", `[]`, http.StatusBadRequest},
		{"deeper than any", "", strings.Repeat(`{"request":`, 100000), http.StatusBadRequest},
		{"three megabytes", "", strings.Replace(review("admission.k8s.io/v1"), "null", `{"x": "`+strings.Repeat("x", 3<<20)+`"}`, 1), http.StatusOK},
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
		document := strings.Replace([]string{small, tooLarge}[i%2], `"training": {`, fmt.Sprintf(`"reserve_bytes": %d, "training": {`, i), 1)
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
