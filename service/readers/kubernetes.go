package readers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// Limits of one manifest. Real ones have a handful of objects with one pod or two each.
const (
	maxObjects    = 64
	maxPods       = 32
	maxContainers = 64
	maxDepth      = 24
	maxNodes      = 100_000
	maxKeys       = 1024 // of one mapping
	maxVariables  = 256
	maxValueBytes = 4 << 10 // of one variable
	maxReferences = 16      // in one variable
)

// manifest is a file of Kubernetes objects.
type manifest struct {
	in    *inbox
	shown string
	text  []byte
	// configMaps are the data of the file's ConfigMaps, by their names.
	configMaps map[string]*yaml.Node
	// nodes and containers are what is left of the limits.
	nodes, containers int
}

// pod is a pod's specification in an object.
type pod struct {
	spec *yaml.Node
	// containers are those that run for the whole time.
	containers []*yaml.Node
	// replicas is how many of it there are; 0 where that is not known.
	replicas   int64
	replicasAt *yaml.Node
}

// kubernetes reads a file of Kubernetes objects; found is false where it is none.
func (in *inbox) kubernetes(ctx context.Context, full string, text []byte) (found bool, err error) {
	if !bytes.Contains(text, []byte("apiVersion")) || !bytes.Contains(text, []byte("kind")) {
		return false, nil
	}
	m := &manifest{in: in, shown: in.files.Shown(full), text: text, configMaps: map[string]*yaml.Node{},
		nodes: maxNodes, containers: maxContainers}
	objects := m.objects()
	for _, o := range objects {
		if at(o, "kind").scalar() == "ConfigMap" {
			m.configMaps[at(o, "metadata", "name").scalar()] = at(o, "data").node
		}
	}
	for _, o := range objects {
		if err := m.object(ctx, o); err != nil {
			return true, err
		}
	}
	return len(objects) > 0, nil
}

// objects are the documents that have an apiVersion and a kind, those in a List among them. A file that is not YAML has
// none: the decoder says later what is wrong with it.
func (m *manifest) objects() []*yaml.Node {
	var out []*yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(m.text))
	for len(out) < maxObjects {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil
		}
		if len(document.Content) != 1 {
			continue
		}
		o := document.Content[0]
		if at(o, "apiVersion").node == nil || at(o, "kind").node == nil {
			continue
		}
		if items := at(o, "items").list(); at(o, "kind").scalar() == "List" && len(items) <= maxObjects {
			out = append(out, items...)
			continue
		}
		out = append(out, o)
	}
	return out
}

// place is a node that may not be there.
type place struct{ node *yaml.Node }

// at follows keys of mappings.
func at(n *yaml.Node, keys ...string) place {
	for _, key := range keys {
		if n = plain(n); n == nil || n.Kind != yaml.MappingNode {
			return place{}
		}
		var next *yaml.Node
		for _, e := range entries(n, 0) {
			if e.key == key {
				next = e.value
			}
		}
		n = next
	}
	return place{plain(n)}
}

// entry is one key of a mapping.
type entry struct {
	key   string
	value *yaml.Node
}

// entries are a mapping's keys, those that it merges (<<: *base) and does not have itself first.
func entries(n *yaml.Node, depth int) []entry {
	if n = plain(n); n == nil || n.Kind != yaml.MappingNode || depth > 2 {
		return nil
	}
	content := n.Content[:min(len(n.Content), 2*maxKeys)]
	own := map[string]bool{}
	for i := 0; i+1 < len(content); i += 2 {
		own[content[i].Value] = true
	}
	var merged, out []entry
	for i := 0; i+1 < len(content); i += 2 {
		key, value := content[i], plain(content[i+1])
		if key.Tag != "!!merge" {
			out = append(out, entry{key.Value, value})
			continue
		}
		bases := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			bases = value.Content[:min(len(value.Content), 4)]
		}
		for _, base := range bases {
			for _, e := range entries(base, depth+1) {
				if !own[e.key] {
					merged = append(merged, e)
				}
			}
		}
	}
	return append(merged, out...)
}

// plain follows one alias.
func plain(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (p place) scalar() string {
	if p.node == nil || p.node.Kind != yaml.ScalarNode {
		return ""
	}
	return p.node.Value
}

func (p place) list() []*yaml.Node {
	if p.node == nil || p.node.Kind != yaml.SequenceNode {
		return nil
	}
	out := make([]*yaml.Node, 0, len(p.node.Content))
	for _, n := range p.node.Content {
		out = append(out, plain(n))
	}
	return out
}

// count is a whole number that is written plainly; 0 otherwise.
func (p place) count() int64 {
	n, ok := setting.Value{Any: p.scalar()}.Int()
	if !ok || n < 0 || n > 1<<20 {
		return 0
	}
	return n
}

// value is a node as a setting, with its line.
func (m *manifest) value(n *yaml.Node, key string, x any) setting.Value {
	return setting.Value{Any: x, Text: fmt.Sprint(x), Origin: setting.Origin{Kind: setting.File, Key: key,
		At: m.span(n)}}
}

func (m *manifest) span(n *yaml.Node) setting.Span {
	start := m.lineStart(n.Line)
	return setting.Span{File: m.shown, Start: start, End: start, Line: n.Line}
}

// lineStart is where a line begins, counted from 1.
func (m *manifest) lineStart(line int) int {
	from := 0
	for ; line > 1; line-- {
		i := bytes.IndexByte(m.text[from:], '\n')
		if i < 0 {
			return len(m.text)
		}
		from += i + 1
	}
	return from
}

// pods finds every pod of an object, whatever the kind is called: a mapping with containers. The numbers of replicas
// above it multiply (a JobSet's replicas × its Job's parallelism).
func (m *manifest) pods(o *yaml.Node) []pod {
	var out []pod
	var walk func(n *yaml.Node, p pod, depth int)
	walk = func(n *yaml.Node, p pod, depth int) {
		m.nodes--
		n = plain(n)
		if n == nil || depth > maxDepth || m.nodes < 0 || len(out) >= maxPods {
			return
		}
		if n.Kind == yaml.MappingNode {
			for _, key := range []string{"replicas", "parallelism"} {
				if r := at(n, key); r.node != nil {
					p.replicas, p.replicasAt = min(p.replicas*r.count(), 1<<20), r.node
				}
			}
			if containers := at(n, "containers").list(); len(containers) > 0 {
				p.spec, p.containers = n, containers
				out = append(out, p)
				return
			}
			for _, e := range entries(n, 0) {
				walk(e.value, p, depth+1)
			}
			return
		}
		for _, c := range n.Content {
			walk(c, p, depth+1)
		}
	}
	if trainer := at(o, "spec", "trainer").node; at(o, "kind").scalar() == "TrainJob" && trainer != nil {
		p := pod{spec: trainer, containers: []*yaml.Node{trainer}, replicas: 1}
		if n := at(trainer, "numNodes"); n.node != nil {
			p.replicas, p.replicasAt = n.count(), n.node
		}
		return []pod{p}
	}
	walk(o, pod{replicas: 1}, 0)
	return out
}

// gpus are the GPUs that a container asks for, and where.
func gpus(container *yaml.Node) place {
	for _, resources := range []string{"resources", "resourcesPerNode"} {
		for _, kind := range []string{"limits", "requests"} {
			for _, name := range []string{"nvidia.com/gpu", "amd.com/gpu"} {
				if p := at(container, resources, kind, name); p.node != nil {
					return p
				}
			}
		}
	}
	return place{}
}

// scheduled is what an object asks the cluster for, in the words in which Slurm is asked: nodes are the pods with GPUs.
// Pods that take different numbers say nothing.
func (m *manifest) scheduled(kind string, pods []pod) *setting.Settings {
	s := setting.New()
	var each, nodes int64
	var first place
	var replicasAt *yaml.Node
	for _, p := range pods {
		var mine int64
		for _, c := range p.containers {
			g := gpus(c)
			mine += g.count()
			if first.node == nil && g.count() > 0 {
				first = g
			}
		}
		switch {
		case mine == 0:
			continue
		case p.replicas == 0 || each > 0 && each != mine:
			return s
		}
		each = mine
		nodes += p.replicas
		if replicasAt == nil {
			replicasAt = p.replicasAt
		}
	}
	if each == 0 {
		return s
	}
	put := func(key string, n int64, how string) {
		v := m.value(first.node, "nvidia.com/gpu", n)
		v.Origin.How = how
		s.Set(key, v)
	}
	put("gpus_on_node", each, "")
	put("gpus", each*nodes, fmt.Sprintf("%d pods × %d GPUs", nodes, each))
	if replicasAt != nil {
		s.Set("nodes", m.value(replicasAt, "replicas", nodes))
	} else {
		put("nodes", nodes, "one pod")
	}
	switch kind {
	case "PyTorchJob": // every pod is one process of the group where it starts python itself
		put("processes", nodes, fmt.Sprintf("%d pods of one process each", nodes))
	case "MPIJob":
		put("processes", each*nodes, fmt.Sprintf("%d workers × %d GPUs", nodes, each))
	}
	return s
}

// cards are the GPUs that a pod's node has to have, by the labels of NVIDIA's feature discovery and of GKE.
func (m *manifest) cards(p pod) (setting.Value, bool) {
	names := []string{"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator"}
	for _, label := range names {
		if n := at(p.spec, "nodeSelector", label); n.scalar() != "" {
			v := m.value(n.node, label, n.scalar())
			v.Any = []any{n.scalar()}
			return v, true
		}
	}
	required := at(p.spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
		"nodeSelectorTerms")
	for _, term := range required.list() {
		for _, e := range at(term, "matchExpressions").list() {
			key, values := at(e, "key").scalar(), at(e, "values").list()
			if !slices.Contains(names, key) || at(e, "operator").scalar() != "In" || len(values) == 0 || len(values) > 8 {
				continue
			}
			var list []any
			for _, n := range values {
				list = append(list, place{n}.scalar())
			}
			v := m.value(values[0], key, fmt.Sprint(list...))
			v.Any = list
			return v, true
		}
	}
	return setting.Value{}, false
}

// object reads the containers of one object. Pods of one job that start the same words (a master and its workers) are
// one job.
func (m *manifest) object(ctx context.Context, o *yaml.Node) error {
	pods := m.pods(o)
	slurm := m.scheduled(at(o, "kind").scalar(), pods)
	seen := map[string]bool{}
	for _, p := range pods {
		for _, c := range p.containers {
			if m.containers--; m.containers < 0 {
				return nil
			}
			k := &container{manifest: m, object: o, pod: p, node: c, scheduled: slurm}
			if err := k.read(ctx, seen); err != nil {
				return err
			}
		}
	}
	return nil
}
