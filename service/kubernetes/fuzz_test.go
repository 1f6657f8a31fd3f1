package kubernetes

import (
	"encoding/json"
	"testing"

	"github.com/vramplan/vramplan/reliability/process"
)

// FuzzReview reads reviews. A question has a document that is JSON, and an answer that is a review.
func FuzzReview(f *testing.F) {
	f.Add([]byte(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "operation": "CREATE", "kind": {"group": "batch", "version": "v1", "kind": "Job"},
		"object": {"metadata": {"name": "a", "annotations": {"vramplan.dev/job": "{\"model\": {\"preset\": \"gpt2\"}}"}},
		"spec": {"parallelism": 2, "template": {"spec": {"nodeSelector": {"nvidia.com/gpu.product": "Tesla-T4"}, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1", "cpu": 2}}}]}}}}}}`))
	f.Add([]byte(`{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u", "operation": "UPDATE", "kind": {"group": "kubeflow.org", "kind": "PyTorchJob"},
		"object": {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": -1, "template": {"metadata": {"annotations": {"vramplan.dev/job": "{}"}}, "spec": {"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}}]}}}}}},
		"oldObject": {"spec": null}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var request *Request
		var err error
		if dear := process.Reading(len(body), func() { request, err = Decode(body) }); dear != nil {
			t.Error(dear)
		}
		if err != nil {
			return
		}
		q, err := request.Question(func(name string) ([]string, error) { return []string{name}, nil })
		if err != nil || q == nil {
			return
		}
		if !json.Valid(q.Document) || q.GPUs < 0 {
			t.Errorf("question %+v", q)
		}
	})
}
