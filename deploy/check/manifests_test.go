// Package check holds tests of the Kubernetes manifests against the types of the
// Kubernetes API. It is a module of its own, so that those types stay out of the
// program's dependencies.
package check

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

const folder = "../kubernetes"

// read decodes a manifest strictly: an unknown or repeated field is an error.
func read[T any](t *testing.T, name string) T {
	t.Helper()
	var v T
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// kustomization is the part of the file that the tests look at.
type kustomization struct {
	Resources          []string `json:"resources"`
	ConfigMapGenerator []struct {
		Name     string   `json:"name"`
		Literals []string `json:"literals"`
	} `json:"configMapGenerator"`
}

func settings(t *testing.T) (k kustomization, literals string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &k); err != nil {
		t.Fatal(err)
	}
	return k, "\n" + strings.Join(k.ConfigMapGenerator[0].Literals, "\n") + "\n"
}

func TestEveryManifestIsUsed(t *testing.T) {
	k, _ := settings(t)
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(k.Resources)+1 {
		t.Errorf("%d files, %d resources", len(files), len(k.Resources))
	}
	read[corev1.Namespace](t, "namespace.yaml")
}

func TestDeployment(t *testing.T) {
	d := read[appsv1.Deployment](t, "deployment.yaml")
	pod := d.Spec.Template.Spec
	if d.Spec.Replicas != nil {
		t.Error("replicas are set beside an autoscaler")
	}
	if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod's security context is %+v", s)
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("the pod gets variables or a token that it does not need")
	}
	c := pod.Containers[0]
	if s := c.SecurityContext; s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("the container's security context is %+v", s)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() || !c.Resources.Limits.Memory().Equal(*c.Resources.Requests.Memory()) {
		t.Errorf("resources %+v", c.Resources)
	}
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for name, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe == nil || probe.HTTPGet.Path != name || !ports[probe.HTTPGet.Port.StrVal] {
			t.Errorf("%s: %+v", name, probe)
		}
	}
	if c.StartupProbe == nil || !ports[c.StartupProbe.HTTPGet.Port.StrVal] {
		t.Errorf("startup: %+v", c.StartupProbe)
	}
	// The pod must live longer than the service takes to stop, and the drain longer
	// than the balancers take to see it.
	_, literals := settings(t)
	if !strings.Contains(literals, "\nVRAMPLAN_DRAIN=12s\n") || !strings.Contains(literals, "\nVRAMPLAN_FINISH_TIMEOUT=25s\n") ||
		*pod.TerminationGracePeriodSeconds < 12+25+5 || c.ReadinessProbe.PeriodSeconds*c.ReadinessProbe.FailureThreshold >= 12 {
		t.Errorf("draining: %s, %d s of grace", literals, *pod.TerminationGracePeriodSeconds)
	}
}

func TestTheOthersFitTheDeployment(t *testing.T) {
	d := read[appsv1.Deployment](t, "deployment.yaml")
	s := read[corev1.Service](t, "service.yaml")
	if target := s.Spec.Ports[0].TargetPort.StrVal; target != "http" || len(s.Spec.Ports) != 1 {
		t.Errorf("the service leads to %q, with %d ports", target, len(s.Spec.Ports))
	}
	h := read[autoscalingv2.HorizontalPodAutoscaler](t, "autoscaler.yaml")
	if ref := h.Spec.ScaleTargetRef; ref.Kind != "Deployment" || ref.Name != d.Name || *h.Spec.MinReplicas < 2 || h.Spec.MaxReplicas <= *h.Spec.MinReplicas {
		t.Errorf("the autoscaler is %+v", h.Spec)
	}
	b := read[policyv1.PodDisruptionBudget](t, "disruption.yaml")
	if b.Spec.MaxUnavailable == nil || b.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("the budget is %+v", b.Spec)
	}
	n := read[networkingv1.NetworkPolicy](t, "network.yaml")
	if len(n.Spec.PolicyTypes) != 2 {
		t.Errorf("the policy is for %v", n.Spec.PolicyTypes)
	}
	for _, rule := range n.Spec.Ingress {
		for _, p := range rule.Ports {
			if p.Port.StrVal == "admin" && len(rule.From) == 0 {
				t.Error("the admin port is open to anybody")
			}
		}
	}
}

// What kustomize makes of it: selectors everywhere, the settings' generated name
// in the deployment.
func TestKustomize(t *testing.T) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("kubectl is not installed; the manifests were checked one by one")
	}
	out, err := exec.Command(kubectl, "kustomize", folder).Output()
	if err != nil {
		t.Fatalf("kubectl kustomize: %v", err)
	}
	kinds := map[string]int{}
	for doc := range bytes.SplitSeq(out, []byte("\n---\n")) {
		var o struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name, Namespace string
				Labels          map[string]string
			} `json:"metadata"`
		}
		if err := yaml.Unmarshal(doc, &o); err != nil {
			t.Fatal(err)
		}
		kinds[o.Kind]++
		if o.Metadata.Labels["app.kubernetes.io/name"] != "vramplan" || o.Kind != "Namespace" && o.Metadata.Namespace != "vramplan" {
			t.Errorf("%s %s: namespace %q, labels %v", o.Kind, o.Metadata.Name, o.Metadata.Namespace, o.Metadata.Labels)
		}
		if o.Kind == "Deployment" {
			var d appsv1.Deployment
			if err := yaml.UnmarshalStrict(doc, &d); err != nil {
				t.Fatal(err)
			}
			if d.Spec.Selector == nil || d.Spec.Selector.MatchLabels["app.kubernetes.io/name"] != "vramplan" || !strings.HasPrefix(d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name, "vramplan-settings-") {
				t.Errorf("the deployment is %+v", d.Spec)
			}
		}
	}
	for _, kind := range []string{"Namespace", "ConfigMap", "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy"} {
		if kinds[kind] != 1 {
			t.Errorf("%d of %s", kinds[kind], kind)
		}
	}
}
