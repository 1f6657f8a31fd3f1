package readers

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// container is one container of a pod: a command with an environment and files of its own.
type container struct {
	*manifest
	object    *yaml.Node
	pod       pod
	node      *yaml.Node
	scheduled *setting.Settings
	// env are the variables that are known.
	env map[string]string
}

// read reads what the container starts. seen are the command lines of the object that were read.
func (k *container) read(ctx context.Context, seen map[string]bool) error {
	k.env = k.environment()
	files := k.mounted()
	defer k.in.files.Unmount()
	for name, n := range files {
		k.in.files.Mount(name, k.shown, k.placed(n, n.Value, path.Ext(name) != ".py"))
	}
	text, first, ok := k.script()
	found := false
	if ok {
		commands, err := launch.CommandsOf(ctx, k.in.files, launch.ScriptText{
			Name: k.shown, Text: text, Dir: at(k.node, "workingDir").scalar(), Env: k.env,
			Components: []launch.Scheduled{{Counts: k.scheduled}},
			Pods:       true,
		})
		if err != nil {
			k.in.answer.Refusals = append(k.in.answer.Refusals,
				draft.Refusal{File: k.shown, Line: first, Code: "not-readable", Say: err.Error()})
			return ctx.Err()
		}
		for _, s := range k.in.jobs(commands) {
			found = true
			if !seen[s.words] {
				seen[s.words] = true
				k.add(s.Out)
			}
		}
	}
	if found || gpus(k.node).node == nil {
		return nil
	}
	if named, err := k.environmentFile(ctx, files); named || err != nil {
		return err
	}
	if !ok {
		k.in.unread = append(k.in.unread, stranger{false, draft.Refusal{File: k.shown, Line: k.node.Line, Code: "unknown-program",
			Say: fmt.Sprintf("the container %s starts its image's own program, which is not in this file: "+
				"say what it trains in a job document", at(k.node, "name").scalar())}})
	}
	return nil
}

// add puts a job into the answer, with the cards that its node has to have.
func (k *container) add(d *draft.Draft) {
	if v, ok := k.cards(k.pod); ok && !d.Has("/gpus") {
		known := k.in.files.Source.HasGPU
		if names := v.Strings(); known != nil && slices.ContainsFunc(names, func(name string) bool {
			return !known(name)
		}) {
			d.Assume("/gpus", "the node's label %s (%s) is no card of the catalog: say which card it is with --gpu NAME", strings.Join(names, ", "), v.Origin.At.Where())
		} else {
			d.Put("/gpus", v.Any, v)
		}
	}
	k.in.add(d)
}

// environmentFile reads the mounted configurations that variables name, for images that start the trainer themselves.
func (k *container) environmentFile(ctx context.Context, files map[string]*yaml.Node) (named bool, err error) {
	variables := make([]string, 0, len(k.env))
	for name := range k.env {
		variables = append(variables, name)
	}
	sort.Strings(variables)
	for _, variable := range variables {
		full := path.Clean(k.env[variable])
		if _, ok := files[full]; !ok {
			continue
		}
		text, err := k.in.files.Read(full)
		if err != nil {
			return true, fmt.Errorf("read %s: %w", full, err)
		}
		l := launch.Alone(k.in.files)
		if v, ok := k.scheduled.Get("gpus"); ok {
			l.Counted = func() launch.Count { return launch.CountOf(v) }
		}
		r := &tool.Job{Launch: l, File: full}
		if variable == "SFT_TRAINER_CONFIG_JSON_PATH" {
			r.Beneath = tuningDefaults()
		}
		if d := k.in.draftOf(r, text); d != nil {
			named = true
			k.add(d)
		}
		if ctx.Err() != nil {
			return named, ctx.Err()
		}
	}
	return named, nil
}

// tuningDefaults are those of fms-hf-tuning, whose image reads the file of SFT_TRAINER_CONFIG_JSON_PATH.
func tuningDefaults() *setting.Settings {
	const ref = "fms-hf-tuning 007d276 tuning/config/configs.py"
	s := setting.New()
	for _, d := range []struct {
		key   string
		value any
	}{{"torch_dtype", "bfloat16"}, {"use_flash_attn", true}, {"max_seq_length", int64(4096)}, {"bf16", false},
		{"gradient_checkpointing", false}} {
		s.Set(d.key, setting.Value{Any: d.value, Text: fmt.Sprint(d.value),
			Origin: setting.Origin{Kind: setting.Default, Key: d.key, Ref: ref}})
	}
	return s
}

// shells are the programs whose -c takes a script.
var shells = setting.SetOf("sh", "bash", "dash", "ash", "zsh")

// script is what the container starts as a shell would write it, in its own lines; first is the line where it begins.
// ok is false where the image's own program starts.
func (k *container) script() (text []byte, first int, ok bool) {
	words := at(k.node, "command").list()
	given := len(words) > 0
	words = append(words, at(k.node, "args").list()...)
	if len(words) == 0 || !given && argv.IsOption(words[0].Value) {
		return nil, 0, false
	}
	for _, w := range words {
		if w.Kind != yaml.ScalarNode {
			return nil, 0, false
		}
	}
	if n := inline(words); n != nil {
		value := substitute(n.Value, k.env, func(literal string) string { return literal })
		return k.placed(n, value, true), n.Line, true
	}
	var b strings.Builder
	line := words[0].Line
	b.WriteString(strings.Repeat("\n", line-1))
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		for ; i > 0 && line < w.Line; line++ {
			b.WriteString("\\\n")
		}
		b.WriteString(substitute(w.Value, k.env, quoted))
		line += strings.Count(w.Value, "\n")
	}
	b.WriteByte('\n')
	return []byte(b.String()), words[0].Line, true
}

// inline is the script of bash -c SCRIPT; nil where something else is started.
func inline(words []*yaml.Node) *yaml.Node {
	if !shells[path.Base(words[0].Value)] {
		return nil
	}
	text := false
	for _, w := range words[1:] {
		switch {
		case w.Value == "--" || strings.HasPrefix(w.Value, "--"):
		case strings.HasPrefix(w.Value, "-") || strings.HasPrefix(w.Value, "+"):
			text = text || strings.Contains(w.Value, "c")
		case text:
			return w
		case w.Value == "pipefail": // bash -e -o pipefail -c
		default:
			return nil
		}
	}
	return nil
}

// reference is $(NAME) in a command, and $$( for a dollar that stays.
var reference = regexp.MustCompile(`\$\$\(|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)`)

// substitute replaces $(NAME) as the kubelet does: only of variables that the container has. Those whose value is not
// known stay variables.
func substitute(s string, env map[string]string, quote func(string) string) string {
	var b strings.Builder
	literal := ""
	last := 0
	for _, m := range reference.FindAllStringSubmatchIndex(s, 64) {
		literal += s[last:m[0]]
		last = m[1]
		if m[2] < 0 {
			literal += "$("
			continue
		}
		name := s[m[2]:m[3]]
		if value, ok := env[name]; ok {
			literal += value
			continue
		}
		if literal != "" {
			b.WriteString(quote(literal))
		}
		literal = ""
		b.WriteString(`"${` + strings.NewReplacer(".", "_", "-", "_").Replace(name) + `}"`)
	}
	if literal += s[last:]; literal != "" || b.Len() == 0 {
		b.WriteString(quote(literal))
	}
	return b.String()
}

// environment are the container's variables whose values stand in the file, and those that its operator sets.
func (k *container) environment() map[string]string {
	env := k.operator()
	for _, from := range at(k.node, "envFrom").list() {
		data := plain(k.configMaps[at(from, "configMapRef", "name").scalar()])
		if data == nil || data.Kind != yaml.MappingNode {
			continue
		}
		for i := 0; i+1 < len(data.Content); i += 2 {
			if value := (place{plain(data.Content[i+1])}).scalar(); len(value) <= maxValueBytes &&
				len(env) < maxVariables {
				env[at(from, "prefix").scalar()+data.Content[i].Value] = value
			}
		}
	}
	for _, e := range at(k.node, "env").list() {
		name, ref := at(e, "name").scalar(), at(e, "valueFrom", "configMapKeyRef")
		value := at(e, "value")
		if ref.node != nil {
			value = at(k.configMaps[at(ref.node, "name").scalar()], at(ref.node, "key").scalar())
		}
		delete(env, name)
		if value.node == nil || value.node.Kind != yaml.ScalarNode || len(value.scalar()) > maxValueBytes ||
			len(env) >= maxVariables ||
			strings.Count(value.scalar(), "$(") > maxReferences {
			continue
		}
		if text := expanded(value.scalar(), env); len(text) <= maxValueBytes {
			env[name] = text
		}
	}
	return env
}

// expanded replaces $(NAME) in a variable's value by the variables before it; what is not among them stays.
func expanded(value string, env map[string]string) string {
	return reference.ReplaceAllStringFunc(value, func(r string) string {
		if r == "$$(" {
			return "$("
		}
		if known, ok := env[r[2:len(r)-1]]; ok {
			return known
		}
		return r
	})
}

// operator are the variables that the training operator gives to a PyTorchJob's pods, from which torchrun takes its
// defaults (kubeflow/training-operator pkg/controller.v1/pytorch/envvar.go).
func (k *container) operator() map[string]string {
	env := map[string]string{}
	kind, spec := at(k.object, "kind").scalar(), at(k.object, "spec").node
	per, nodes := place{}, ""
	switch kind {
	case "PyTorchJob":
		per = at(spec, "nprocPerNode")
		if least, most := at(spec, "elasticPolicy", "minReplicas"), at(spec, "elasticPolicy", "maxReplicas"); most.node != nil {
			nodes = fmt.Sprintf("%d:%d", max(1, least.count()), most.count())
		}
	case "TrainJob":
		per = at(spec, "trainer", "numProcPerNode")
	default:
		return env
	}
	env["PET_NPROC_PER_NODE"] = cmp.Or(per.scalar(), "auto")
	if v, ok := k.scheduled.Get("nodes"); ok {
		env["PET_NNODES"] = cmp.Or(nodes, v.String())
		if n, isInt := v.Int(); isInt && nodes == "" {
			if p := per.count(); p > 0 {
				n *= p
			}
			if kind == "PyTorchJob" {
				env["WORLD_SIZE"] = strconv.FormatInt(n, 10)
			}
		}
	}
	return env
}
