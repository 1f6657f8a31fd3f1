package readers

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// skypilot reads a task of SkyPilot: its run is a script, on every one of its nodes, with variables of the file and of
// SkyPilot's own. found is false where it is none. Source: SkyPilot docs, reference/yaml-spec and
// running-jobs/environment-variables.
func (in *inbox) skypilot(ctx context.Context, full string, text []byte) (found bool, err error) {
	var document yaml.Node
	if yaml.Unmarshal(text, &document) != nil || len(document.Content) != 1 {
		return false, nil
	}
	task := document.Content[0]
	run := at(task, "run")
	if run.node == nil || run.node.Kind != yaml.ScalarNode ||
		at(task, "resources").node == nil && at(task, "num_nodes").node == nil && at(task, "setup").node == nil {
		return false, nil
	}
	m := &manifest{in: in, shown: in.files.Shown(full), text: text, nodes: maxNodes}
	nodes := max(1, at(task, "num_nodes").count())
	env := map[string]string{"SKYPILOT_NUM_NODES": strconv.FormatInt(nodes, 10)}
	accelerators := at(task, "resources", "accelerators")
	card, per := cards(accelerators)
	counts := setting.New()
	origin := setting.Origin{Kind: setting.File, Key: "accelerators", At: setting.Span{File: m.shown}}
	if accelerators.node != nil {
		origin.At.Line = accelerators.node.Line
	}
	if per > 0 {
		env["SKYPILOT_NUM_GPUS_PER_NODE"] = strconv.FormatInt(per, 10)
		counts.Set("gpus_on_node", setting.Value{Any: per, Text: accelerators.scalar(), Origin: origin})
		counts.Set("gpus", setting.Value{Any: per * nodes, Text: accelerators.scalar(), Origin: origin})
		counts.Set("nodes", setting.Value{Any: nodes, Text: at(task, "num_nodes").scalar(), Origin: origin})
	}
	var open []string
	for _, key := range []string{"envs", "secrets"} {
		for _, e := range entries(at(task, key).node, 0) {
			if v := (place{e.value}).scalar(); v != "" && len(v) <= maxValueBytes && len(env) < maxVariables {
				env[e.key] = v
				open = append(open, e.key)
			}
		}
	}
	commands, err := launch.CommandsOf(ctx, in.files, launch.ScriptText{Name: m.shown,
		Text: m.placed(run.node, run.scalar(), true), Env: env, Pods: true,
		Components: []launch.Scheduled{{Counts: counts}}})
	if err != nil {
		in.answer.Refusals = append(in.answer.Refusals, draft.Refusal{File: m.shown, Line: run.node.Line,
			Code: "not-readable", Say: err.Error()})
		return true, ctx.Err()
	}
	for _, s := range in.jobs(commands) {
		if len(open) > 0 {
			s.Out.Doubts.Add(draft.Doubt{File: m.shown, Word: strings.Join(open, ", "), Enlarges: true,
				Why: "may have other values than the file's, by sky launch --env"})
		}
		if known := in.files.Source.HasGPU; card != "" && (known == nil || known(card)) {
			s.Out.Put("/gpus", []string{card}, setting.Value{Text: accelerators.scalar(), Origin: origin})
		} else if accelerators.node != nil {
			s.Out.Assume("/gpus", "accelerators (%s) is no one card of the catalog: say which card it is with --gpu NAME",
				origin.At.Where())
		}
		in.add(s.Out)
	}
	return true, nil
}

// cards are the card and how many of it a node has: "A100-80GB:8", {A100-80GB: 8}; several that SkyPilot may choose
// from are none.
func cards(p place) (name string, n int64) {
	if p.node == nil {
		return "", 0
	}
	if of := entries(p.node, 0); len(of) == 1 {
		return of[0].key, max(1, place{of[0].value}.count())
	}
	if p.node.Kind != yaml.ScalarNode {
		return "", 0
	}
	name, count, given := strings.Cut(p.scalar(), ":")
	if !given {
		return name, 1
	}
	if _, err := fmt.Sscan(count, &n); err != nil || n < 1 || n > 1<<20 {
		return "", 0
	}
	return name, n
}
