package api_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Every kind of workload, as its controller's API has it.
func TestAdmissionOfEveryKind(t *testing.T) {
	c := webhook(t, realAPI)
	kinds := map[string]func(document string, template corev1.PodTemplateSpec) any{
		"Job": func(d string, p corev1.PodTemplateSpec) any { return batchJob(d, p) },
		"CronJob": func(d string, p corev1.PodTemplateSpec) any {
			return &batchv1.CronJob{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"},
				ObjectMeta: described(d),
				Spec: batchv1.CronJobSpec{
					JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: p}}}}
		},
		"Pod": func(d string, p corev1.PodTemplateSpec) any {
			return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: described(d),
				Spec: p.Spec}
		},
		"JobSet": func(d string, p corev1.PodTemplateSpec) any {
			return custom("jobset.x-k8s.io/v1alpha2", "JobSet", d, map[string]any{"replicatedJobs": []any{
				map[string]any{"name": "loader", "template": map[string]any{"spec": batchv1.JobSpec{}}},
				map[string]any{"name": "train", "replicas": 1,
					"template": map[string]any{"spec": batchv1.JobSpec{Template: p}}}}})
		},
		"PyTorchJob": func(d string, p corev1.PodTemplateSpec) any {
			return custom("kubeflow.org/v1", "PyTorchJob", d,
				map[string]any{"pytorchReplicaSpecs": map[string]any{"Master": map[string]any{"replicas": 1,
					"template": p}}})
		},
		"TrainJob": func(d string, p corev1.PodTemplateSpec) any {
			return custom("trainer.kubeflow.org/v1alpha1", "TrainJob", d, map[string]any{
				"runtimeRef": map[string]any{"name": "torch-distributed"},
				"trainer":    map[string]any{"numNodes": 1, "resourcesPerNode": p.Spec.Containers[0].Resources},
				"podTemplateOverrides": []any{map[string]any{"targetJobs": []any{map[string]any{"name": "node"}},
					"spec": map[string]any{"nodeSelector": p.Spec.NodeSelector, "affinity": p.Spec.Affinity}}}})
		},
		"RayJob": func(d string, p corev1.PodTemplateSpec) any {
			return custom("ray.io/v1", "RayJob", d, map[string]any{"entrypoint": "python train.py",
				"rayClusterSpec": map[string]any{
					"headGroupSpec":    map[string]any{"template": corev1.PodTemplateSpec{}},
					"workerGroupSpecs": []any{map[string]any{"replicas": 1, "groupName": "w", "template": p}}}})
		},
	}
	for kind, object := range kinds {
		t.Run(kind, func(t *testing.T) {
			p := pods(rtx4070, "nvidia.com/gpu", 1)
			if r := c.review(t, "/enforce", ask(t, object(small, p))); !r.Allowed || len(r.Warnings) > 0 ||
				r.AuditAnnotations["verdict"] != "fits" {
				t.Errorf("a job that fits: %+v", r)
			}
			r := c.review(t, "/enforce", ask(t, object(tooLarge, p)))
			if r.Allowed || r.AuditAnnotations["verdict"] != "does_not_fit" {
				t.Fatalf("a job that does not fit: %+v", r)
			}
			for _, part := range []string{"needs 18.62 GiB (18.30 GiB to 18.92 GiB)", "rtx-4070 has 11.71 GiB",
				"micro_batch 8 with gradient_accumulation 64 fits", "vramplan.dev/override: REASON",
				r.AuditAnnotations["decision-id"]} {
				if !strings.Contains(r.Result.Message, part) {
					t.Errorf("%q is not in %q", part, r.Result.Message)
				}
			}
			if r := c.review(t, "/warn", ask(t, object(tooLarge, p))); !r.Allowed || len(r.Warnings) != 2 {
				t.Errorf("the same with a warning: %+v", r)
			}
			if r := c.review(t, "/audit", ask(t, object(tooLarge, p))); !r.Allowed || len(r.Warnings) > 0 ||
				r.AuditAnnotations["verdict"] != "does_not_fit" {
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
			affine.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: "zone", Operator: corev1.NodeSelectorOpExists},
						{Key: "nvidia.com/gpu.product", Operator: corev1.NodeSelectorOpIn,
							Values: []string{rtx4070, "NVIDIA-RTX-A4000"}}}}}}}}
			if r := c.review(t, "/enforce", ask(t, object(tooLarge, affine))); r.Allowed ||
				r.AuditAnnotations["gpu"] != "rtx-a4000" {
				t.Errorf("on either of two cards that are too small: %+v", r)
			}
		})
	}
}

// What is not a job of somebody that was just described passes without a word.
func TestAdmissionPassesBy(t *testing.T) {
	c := webhook(t, realAPI)
	p := pods(rtx4070, "nvidia.com/gpu", 1)
	with := func(change func(*batchv1.Job)) *admissionv1.AdmissionRequest {
		j := batchJob(tooLarge, p)
		change(j)
		return ask(t, j)
	}
	sentBy := func(user string, change func(*batchv1.Job)) *admissionv1.AdmissionRequest {
		r := with(change)
		r.UserInfo.Username = user
		return r
	}
	asked := func(change func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionRequest {
		r := ask(t, batchJob(tooLarge, p))
		change(r)
		return r
	}
	now := metav1.Now()
	for name, request := range map[string]*admissionv1.AdmissionRequest{
		"no annotation":        with(func(j *batchv1.Job) { j.Annotations = nil }),
		"made by a controller": sentBy("system:serviceaccount:kube-system:cronjob-controller", owned),
		"made by an operator":  sentBy("system:serviceaccount:kubeflow:training-operator", owned),
		"made by the manager":  sentBy("system:kube-controller-manager", owned),
		"on its way out":       with(func(j *batchv1.Job) { j.DeletionTimestamp = &now }),
		"deleted": asked(func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.OldObject, r.Object = admissionv1.Delete, r.Object, runtime.RawExtension{}
		}),
		"a status": asked(func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.SubResource = admissionv1.Update, "status"
		}),
		"a namespace of k8s": asked(func(r *admissionv1.AdmissionRequest) { r.Namespace = "kube-system" }),
		"another kind": asked(func(r *admissionv1.AdmissionRequest) {
			r.Kind.Kind = "Deployment"
			r.Kind.Group = "apps"
		}),
		"an unchanged update": asked(func(r *admissionv1.AdmissionRequest) {
			r.Operation, r.OldObject = admissionv1.Update, r.Object
		}),
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

// owned says of a job that a controller made it, as anybody may.
func owned(j *batchv1.Job) {
	yes := true
	j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "c", UID: "u",
		Controller: &yes}}
}

// An owner is believed of a controller alone: users, and the service accounts that they work with, can write one.
func TestAdmissionForgedOwners(t *testing.T) {
	c := webhook(t, realAPI)
	for _, user := range []string{"", "ada", "system:anonymous", "system:serviceaccount:team-a:default",
		"system:serviceaccount:team-b", "ada:system:serviceaccount:kube-system:cronjob-controller"} {
		for _, update := range []bool{false, true} {
			j := batchJob(tooLarge, pods(rtx4070, "nvidia.com/gpu", 1))
			owned(j)
			r := ask(t, j)
			r.UserInfo.Username = user
			if update {
				r.Operation, r.OldObject = admissionv1.Update,
					ask(t, batchJob(small, pods(rtx4070, "nvidia.com/gpu", 1))).Object
			}
			if got := c.review(t, "/enforce", r); got.Allowed {
				t.Errorf("sent by %q, update %t: let in: %+v", user, update, got)
			}
		}
	}
}

func TestAdmissionOfUpdates(t *testing.T) {
	c := webhook(t, realAPI)
	before, after := ask(t, batchJob(small, pods(rtx4070, "nvidia.com/gpu", 1))),
		ask(t, batchJob(tooLarge, pods(rtx4070, "nvidia.com/gpu", 1)))
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
	half.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "nvidia.com/gpu.product",
					Operator: corev1.NodeSelectorOpIn, Values: []string{rtx4070}}}},
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone",
					Operator: corev1.NodeSelectorOpExists}}}}}}}
	for _, tt := range []struct {
		name   string
		object any
		says   string
	}{
		{"a reason", override, "overridden: measured on a node"},
		{"a card that is large enough among two", batchJob(tooLarge, gpu("a100")), ""},
		{"eight GPUs, of which the document does not speak", batchJob(tooLarge, pods(rtx4070, "nvidia.com/gpu", 8)),
			"8 GPUs"},
		{"no card", batchJob(tooLarge, gpu("")), "neither a node selector nor the job says which GPU it gets"},
		{"no card in one of the places where it may run", batchJob(tooLarge, half), "neither a node selector"},
		{"an unknown card", batchJob(tooLarge, gpu("NVIDIA-GeForce-RTX-9999")), "unknown GPU"},
		{"no GPU", batchJob(tooLarge, pods(rtx4070, "example.com/fpga", 1)),
			"no container has a limit for nvidia.com/gpu"},
		{"not JSON", batchJob("{", gpu(rtx4070)), "is not a JSON object"},
		{"not a job", batchJob(`{"model": {"preset": "gpt2"}, "trainin": {}}`, gpu(rtx4070)), "did you mean training"},
		{"an unknown model", batchJob(`{"model": {"preset": "gpt-7"}, "training": {"micro_batch": 1}}`, gpu(rtx4070)),
			"unknown model"},
		{"a spec that cannot be", map[string]any{"apiVersion": "batch/v1", "kind": "Job",
			"metadata": described(tooLarge), "spec": 5}, "spec cannot be read"},
	} {
		r := c.review(t, "/enforce", ask(t, tt.object))
		said := strings.Join(r.Warnings, "\n")
		if !r.Allowed || !strings.Contains(said, tt.says) || (tt.says == "") != (said == "") {
			t.Errorf("%s: allowed %v, says %q, want %q", tt.name, r.Allowed, said, tt.says)
		}
		if r := c.review(t, "/audit", ask(t, tt.object)); !r.Allowed || len(r.Warnings) > 0 ||
			r.AuditAnnotations["verdict"] == "" {
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
		{"a slice of a card", tooLarge, "NVIDIA-A100-SXM4-80GB", "nvidia.com/mig-1g.10gb", "a100-sxm4-80gb-mig-1g.10gb",
			"does_not_fit"},
		{"a slice that fits", tooLarge, "NVIDIA-A100-SXM4-80GB", "nvidia.com/mig-2g.20gb", "a100-sxm4-80gb-mig-2g.20gb",
			"fits"},
		{"a slice as a product", tooLarge, "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "nvidia.com/gpu",
			"a100-sxm4-80gb-mig-1g.10gb", "does_not_fit"},
		{"the job's own card", onT4, "", "nvidia.com/gpu", "t4", "does_not_fit"},
		{"the node's before the job's", onT4, "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu", "h100-sxm5", "fits"},
	} {
		r := c.review(t, "/audit", ask(t, batchJob(tt.document, pods(tt.product, tt.resource, 1))))
		if r.AuditAnnotations["gpu"] != tt.gpu || r.AuditAnnotations["verdict"] != tt.verdict {
			t.Errorf("%s: %v, want %s on %s", tt.name, r.AuditAnnotations, tt.verdict, tt.gpu)
		}
	}
}
