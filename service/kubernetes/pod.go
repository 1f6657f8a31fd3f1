package kubernetes

import (
	"encoding/json"
	"strconv"
	"strings"
)

// podSpec is the part of a pod that says which GPUs it gets.
type podSpec struct {
	NodeSelector map[string]string `json:"nodeSelector"`
	Affinity     affinity          `json:"affinity"`
	Containers   []container       `json:"containers"`
	Init         []container       `json:"initContainers"`
}

type affinity struct {
	Node struct {
		Required *struct {
			Terms []struct {
				Expressions []struct {
					Key      string   `json:"key"`
					Operator string   `json:"operator"`
					Values   []string `json:"values"`
				} `json:"matchExpressions"`
			} `json:"nodeSelectorTerms"`
		} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
	} `json:"nodeAffinity"`
}

type container struct {
	Resources resources `json:"resources"`
}

type resources struct {
	// Limits are quantities, which may be strings or numbers.
	Limits map[string]json.RawMessage `json:"limits"`
}

// pod is what a podSpec comes to.
type pod struct {
	gpus, replicas int64
	// slice is the MIG profile that is asked for, if any.
	slice string
	// cards are those on which the pod may start; none where it does not say.
	cards []string
}

// productLabels are the node labels that name a GPU: NVIDIA's gpu-feature-discovery, GKE, Karpenter and EKS,
// CoreWeave, AMD's node labeller.
var productLabels = []string{
	"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name",
	"k8s.amazonaws.com/accelerator",
	"gpu.nvidia.com/class", "amd.com/gpu.product-name",
}

const migResource = "nvidia.com/mig-"

func (s *podSpec) pod() pod {
	var p pod
	for _, c := range s.Containers {
		p.add(c, false)
	}
	for _, c := range s.Init { // run before the others, with the same GPUs
		p.add(c, true)
	}
	p.cards = s.cards()
	return p
}

func (p *pod) add(c container, before bool) {
	for name, quantity := range c.Resources.Limits {
		if name != "nvidia.com/gpu" && name != "amd.com/gpu" && !strings.HasPrefix(name, migResource) {
			continue
		}
		n := count(quantity)
		if profile, ok := strings.CutPrefix(name, migResource); ok && n > 0 {
			p.slice = max(p.slice, profile) // two sizes in one pod: the one whose name is later, which has more memory
		}
		if before {
			p.gpus = max(p.gpus, n)
		} else {
			p.gpus += n
		}
	}
}

// count reads a quantity of whole things.
func count(quantity json.RawMessage) int64 {
	n, err := strconv.ParseInt(strings.Trim(string(quantity), `"`), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return min(n, 1<<20)
}

// cards reads the node selector, or else the affinity: the pod may start where any of its terms holds,
// so each has to name cards.
func (s *podSpec) cards() []string {
	for _, label := range productLabels {
		if name := s.NodeSelector[label]; name != "" {
			return []string{name}
		}
	}
	if s.Affinity.Node.Required == nil {
		return nil
	}
	var cards []string
	for _, term := range s.Affinity.Node.Required.Terms {
		found := false
		for _, e := range term.Expressions {
			for _, label := range productLabels {
				if e.Key == label && e.Operator == "In" && len(e.Values) > 0 && !found {
					cards = append(cards, e.Values...)
					found = true
				}
			}
		}
		if !found {
			return nil
		}
	}
	return cards
}

// sliceOf names a slice of a card as a node label does: NVIDIA-A100-SXM4-80GB-MIG-1g.10gb.
func sliceOf(card, profile string) string {
	if profile == "" || strings.Contains(strings.ToLower(card), "-mig-") {
		return card
	}
	return card + "-MIG-" + profile
}
