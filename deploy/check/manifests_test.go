// Package check holds tests of the Kubernetes manifests against the types of the
// Kubernetes API. It is a module of its own, so that those types stay out of the
// program's dependencies.
package check

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
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
	if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil ||
		s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod's security context is %+v", s)
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks || pod.AutomountServiceAccountToken == nil ||
		*pod.AutomountServiceAccountToken {
		t.Error("the pod gets variables or a token that it does not need")
	}
	c := pod.Containers[0]
	if s := c.SecurityContext; s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem ||
		len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" {
		t.Errorf("the container's security context is %+v", s)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() ||
		!c.Resources.Limits.Memory().Equal(*c.Resources.Requests.Memory()) {
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
	if !strings.Contains(literals, "\nVRAMPLAN_DRAIN=12s\n") ||
		!strings.Contains(literals, "\nVRAMPLAN_FINISH_TIMEOUT=25s\n") ||
		*pod.TerminationGracePeriodSeconds < 12+25+5 ||
		c.ReadinessProbe.PeriodSeconds*c.ReadinessProbe.FailureThreshold >= 12 {
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
	if ref := h.Spec.ScaleTargetRef; ref.Kind != "Deployment" || ref.Name != d.Name || *h.Spec.MinReplicas < 2 ||
		h.Spec.MaxReplicas <= *h.Spec.MinReplicas {
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

// object is what the tests look at of whatever kustomize makes.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name, Namespace string
		Labels          map[string]string
	} `json:"metadata"`
	text []byte
}

// build runs kustomize on a folder. Its result is by kind.
func build(t *testing.T, folder string) map[string][]object {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string][]object{}
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		o := object{text: text}
		if err := yaml.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		kinds[o.Kind] = append(kinds[o.Kind], o)
	}
	return kinds
}

// one is the only object of a kind, read strictly.
func one[T any](t *testing.T, kinds map[string][]object, kind string) T {
	t.Helper()
	var v T
	if n := len(kinds[kind]); n != 1 {
		t.Fatalf("%d of %s", n, kind)
	}
	if err := yaml.UnmarshalStrict(kinds[kind][0].text, &v); err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return v
}

// What kustomize makes of it: selectors everywhere, the settings' generated name in the deployment. With the webhooks
// it is the same service.
func TestKustomize(t *testing.T) {
	for _, folder := range []string{folder, webhooks} {
		kinds := build(t, folder)
		for kind, list := range kinds {
			for _, o := range list {
				switch kind {
				case "ValidatingWebhookConfiguration", "Certificate", "Issuer": // of the webhooks alone
					continue
				}
				if o.Metadata.Labels["app.kubernetes.io/name"] != "vramplan" || kind != "Namespace" &&
					o.Metadata.Namespace != "vramplan" {
					t.Errorf("%s: %s %s: namespace %q, labels %v", folder, kind, o.Metadata.Name, o.Metadata.Namespace,
						o.Metadata.Labels)
				}
			}
		}
		d := one[appsv1.Deployment](t, kinds, "Deployment")
		if d.Spec.Selector == nil || d.Spec.Selector.MatchLabels["app.kubernetes.io/name"] != "vramplan" ||
			d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name != kinds["ConfigMap"][0].Metadata.Name {
			t.Errorf("%s: the deployment is %+v", folder, d.Spec)
		}
		for _, kind := range []string{"Namespace", "ConfigMap", "Service", "HorizontalPodAutoscaler",
			"PodDisruptionBudget", "NetworkPolicy"} {
			if len(kinds[kind]) != 1 {
				t.Errorf("%s: %d of %s", folder, len(kinds[kind]), kind)
			}
		}
	}
}

// webhooks is the folder with the service that Kubernetes asks.
const webhooks = "../../hooks/kubernetes"

// The service behind the webhooks speaks TLS on every way to it, with the certificate that is made for its name, and is
// not asked about its own pods.
func TestWebhookService(t *testing.T) {
	kinds := build(t, webhooks)
	if mode, ok := one[corev1.Namespace](t, kinds, "Namespace").Labels["vramplan.dev/mode"]; ok {
		t.Errorf("the service's own namespace has the mode %s", mode)
	}
	d := one[appsv1.Deployment](t, kinds, "Deployment")
	c := d.Spec.Template.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	if len(ports) != 2 || ports["https"] != 8443 || ports["admin"] != 9090 {
		t.Errorf("ports %v", ports)
	}
	set := one[corev1.ConfigMap](t, kinds, "ConfigMap").Data
	if set["VRAMPLAN_LISTEN"] != ":8443" || set["VRAMPLAN_TLS_CERTIFICATE"] != "/tls/tls.crt" ||
		set["VRAMPLAN_TLS_KEY"] != "/tls/tls.key" || set["VRAMPLAN_DRAIN"] == "" {
		t.Errorf("settings %v", set)
	}
	s := one[corev1.Service](t, kinds, "Service")
	if p := s.Spec.Ports; len(p) != 1 || p[0].Port != 443 || p[0].TargetPort.StrVal != "https" {
		t.Errorf("the service has %+v", p)
	}
	if p := one[networkingv1.NetworkPolicy](t, kinds, "NetworkPolicy").Spec.Ingress[0].Ports; len(p) != 1 ||
		p[0].Port.StrVal != "https" {
		t.Errorf("the policy lets in %+v", p)
	}
	var certificate struct {
		Spec struct {
			SecretName string
			DNSNames   []string
		}
	}
	if err := yaml.Unmarshal(kinds["Certificate"][0].text, &certificate); err != nil {
		t.Fatal(err)
	}
	mounted := map[string]string{}
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Secret != nil {
			mounted[v.Name] = v.Secret.SecretName
		}
	}
	if !slices.Contains(certificate.Spec.DNSNames, s.Name+"."+s.Namespace+".svc") ||
		!slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.MountPath == "/tls" && m.ReadOnly && mounted[m.Name] == certificate.Spec.SecretName
		}) {
		t.Errorf("certificate %+v, mounts %+v of %v", certificate, c.VolumeMounts, mounted)
	}
	for _, w := range one[registrationv1.ValidatingWebhookConfiguration](t, kinds,
		"ValidatingWebhookConfiguration").Webhooks {
		if to := w.ClientConfig.Service; to.Name != s.Name || to.Namespace != s.Namespace ||
			*to.Port != s.Spec.Ports[0].Port {
			t.Errorf("%s asks %+v", w.Name, to)
		}
	}
}
