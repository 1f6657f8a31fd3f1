package kubernetes

import (
	"encoding/json"
	"slices"
)

// object is the part of any workload that is the same for all.
type object struct {
	Metadata struct {
		Name              string            `json:"name"`
		GenerateName      string            `json:"generateName"`
		Annotations       map[string]string `json:"annotations"`
		DeletionTimestamp *string           `json:"deletionTimestamp"`
		OwnerReferences   []struct {
			Controller *bool `json:"controller"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec json.RawMessage `json:"spec"`
}

// template is a pod template, or a pod.
type template struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec podSpec `json:"spec"`
}

// replicated is a template and how many pods are made of it.
type replicated struct {
	template template
	replicas int64
}

// jobSpec is that of batch/v1.
type jobSpec struct {
	Parallelism *int64   `json:"parallelism"`
	Template    template `json:"template"`
}

// templatesOf finds the pod templates in the specification of each kind of workload, by group and
// kind. Versions are left out: these fields are the same in all of them.
var templatesOf = map[[2]string]func(spec json.RawMessage) ([]replicated, error){
	{"", "Pod"}: func(spec json.RawMessage) ([]replicated, error) {
		var t template
		err := json.Unmarshal(spec, &t.Spec)
		return []replicated{{t, 1}}, err
	},
	{"batch", "Job"}: func(spec json.RawMessage) ([]replicated, error) {
		var s jobSpec
		err := json.Unmarshal(spec, &s)
		return []replicated{{s.Template, number(s.Parallelism)}}, err
	},
	{"batch", "CronJob"}: func(spec json.RawMessage) ([]replicated, error) {
		var s struct {
			JobTemplate struct {
				Spec jobSpec `json:"spec"`
			} `json:"jobTemplate"`
		}
		err := json.Unmarshal(spec, &s)
		return []replicated{{s.JobTemplate.Spec.Template, number(s.JobTemplate.Spec.Parallelism)}}, err
	},
	{"jobset.x-k8s.io", "JobSet"}:        jobSet,
	{"kubeflow.org", "PyTorchJob"}:       pyTorchJob,
	{"trainer.kubeflow.org", "TrainJob"}: trainJob,
	{"ray.io", "RayJob"}:                 rayJob,
}

func jobSet(spec json.RawMessage) ([]replicated, error) {
	var s struct {
		ReplicatedJobs []struct {
			Replicas *int64 `json:"replicas"`
			Template struct {
				Spec jobSpec `json:"spec"`
			} `json:"template"`
		} `json:"replicatedJobs"`
	}
	err := json.Unmarshal(spec, &s)
	var all []replicated
	for _, j := range s.ReplicatedJobs {
		all = append(all, replicated{j.Template.Spec.Template,
			number(j.Replicas) * number(j.Template.Spec.Parallelism)})
	}
	return all, err
}

func pyTorchJob(spec json.RawMessage) ([]replicated, error) {
	var s struct {
		Roles map[string]struct {
			Replicas *int64   `json:"replicas"`
			Template template `json:"template"`
		} `json:"pytorchReplicaSpecs"`
	}
	err := json.Unmarshal(spec, &s)
	var all []replicated
	for _, role := range slices.Sorted(keys(s.Roles)) {
		all = append(all, replicated{s.Roles[role].Template, number(s.Roles[role].Replicas)})
	}
	return all, err
}

// trainJob is Kubeflow Trainer's: its pods are described by a runtime that the review does not have, and
// what the job itself says is added to them.
func trainJob(spec json.RawMessage) ([]replicated, error) {
	var s struct {
		Trainer struct {
			NumNodes         *int64    `json:"numNodes"`
			ResourcesPerNode resources `json:"resourcesPerNode"`
		} `json:"trainer"`
		PodSpecOverrides     []podSpec  `json:"podSpecOverrides"` // until 2.0
		PodTemplateOverrides []template `json:"podTemplateOverrides"`
	}
	err := json.Unmarshal(spec, &s)
	var t template
	for _, o := range s.PodTemplateOverrides {
		s.PodSpecOverrides = append(s.PodSpecOverrides, o.Spec)
	}
	for _, o := range s.PodSpecOverrides {
		if len(o.NodeSelector) > 0 {
			t.Spec.NodeSelector = o.NodeSelector
		}
		if o.Affinity.Node.Required != nil {
			t.Spec.Affinity = o.Affinity
		}
	}
	t.Spec.Containers = []container{{Resources: s.Trainer.ResourcesPerNode}}
	return []replicated{{t, number(s.Trainer.NumNodes)}}, err
}

func rayJob(spec json.RawMessage) ([]replicated, error) {
	type group struct {
		Replicas *int64   `json:"replicas"`
		Template template `json:"template"`
	}
	var s struct {
		Cluster struct {
			Head    group   `json:"headGroupSpec"`
			Workers []group `json:"workerGroupSpecs"`
		} `json:"rayClusterSpec"`
	}
	err := json.Unmarshal(spec, &s)
	all := []replicated{{s.Cluster.Head.Template, 1}}
	for _, g := range s.Cluster.Workers {
		all = append(all, replicated{g.Template, number(g.Replicas)})
	}
	return all, err
}

func keys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// number is a count that may be left out, and then is 1. Nobody has more than a million of anything.
func number(n *int64) int64 {
	if n == nil {
		return 1
	}
	return min(max(*n, 0), 1<<20)
}

// read finds what matters in an object; nil where it is no workload with a job document.
func read(kind GroupKind, text json.RawMessage) (*workload, error) {
	templates, ok := templatesOf[[2]string{kind.Group, kind.Kind}]
	if !ok || len(text) == 0 {
		return nil, nil
	}
	var o object
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, unclear("the %s cannot be read: %v", kind.Kind, err)
	}
	all, err := templates(o.Spec)
	if len(o.Spec) > 0 && err != nil {
		return nil, unclear("the %s's spec cannot be read: %v", kind.Kind, err)
	}
	w := &workload{name: o.Metadata.Name, leaving: o.Metadata.DeletionTimestamp != nil,
		indirect: kind.Kind == "TrainJob"}
	if w.name == "" {
		w.name = o.Metadata.GenerateName + "*"
	}
	for _, owner := range o.Metadata.OwnerReferences {
		w.owned = w.owned || owner.Controller != nil && *owner.Controller
	}
	w.document, w.override = o.Metadata.Annotations[JobAnnotation], o.Metadata.Annotations[OverrideAnnotation]
	for _, r := range all {
		annotations := r.template.Metadata.Annotations
		if w.document == "" {
			w.document = annotations[JobAnnotation]
		}
		if w.override == "" {
			w.override = annotations[OverrideAnnotation]
		}
		p := r.template.Spec.pod()
		p.replicas = r.replicas
		w.pods = append(w.pods, p)
	}
	if w.document == "" {
		return nil, nil
	}
	return w, nil
}
