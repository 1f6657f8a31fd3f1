package programs

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/draft"
	syntax "github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// heldModels are arguments of trl's trainers for models beside the trained one, which their kinds of training count.
var heldModels = []string{"ref_model", "reference_model", "teacher_model", "value_model", "reward_model", "reward_funcs",
	"judge"}

// site is where in a program something stands.
type site struct {
	line, start int
	// function is the innermost one around it, nil at the level of the module.
	function *syntax.Node
	// branches are the ifs around it, and whether it stands behind else.
	branches []branch
	// name is what its value is assigned to, as it is written.
	name string
	// handed says that it stands in an argument with which a trainer is given a model that its kind of training holds.
	handed bool
}

type branch struct {
	of     *syntax.Node
	orElse bool
}

// apart says whether two places are in different branches of one if.
func (p site) apart(other site) bool {
	for _, a := range p.branches {
		for _, b := range other.branches {
			if a.of == b.of && a.orElse != b.orElse {
				return true
			}
		}
	}
	return false
}

// placed is a call and where it stands.
type placed struct {
	call, which string
	site
}

// placedCalls finds where a program loads models, makes their quantization, makes its trainer and trains.
type placedCalls struct {
	source []byte

	loads, quantizations, trainers, trains []placed
	// handed are names that a trainer is given for models that its kind of training counts, aliases names that are
	// given to others, and deleted where a name ends.
	handed  map[string]bool
	aliases map[string]string
	deleted map[string]int
}

func (w *placedCalls) text(n *syntax.Node) string {
	if n == nil {
		return ""
	}
	return strings.Join(strings.Fields(string(w.source[n.Start:n.End])), "")
}

func (w *placedCalls) all(list []*syntax.Node, p site) {
	for _, n := range list {
		w.visit(n, p)
	}
}

func (w *placedCalls) visit(n *syntax.Node, p site) {
	switch {
	case n == nil, n.Is("JoinedStr"):
	case n.Is("FunctionDef", "AsyncFunctionDef"):
		p.function, p.name = n, ""
		w.all(n.List("body"), p)
	case n.Is("If"):
		w.visit(n.Part("test"), p)
		outer := slices.Clip(p.branches)
		p.branches = append(outer, branch{n, false})
		w.all(n.List("body"), p)
		p.branches = append(outer, branch{n, true})
		w.all(n.List("orelse"), p)
	case n.Is("Assign", "AnnAssign", "NamedExpr"):
		target := n.Part("target")
		if list := n.List("targets"); len(list) > 0 {
			target = list[0]
		}
		p.name = w.text(target)
		if v := n.Part("value"); v.Is("Name", "Attribute") {
			w.aliases[p.name] = w.text(v)
		}
		w.visit(n.Part("value"), p)
	case n.Is("Delete"):
		for _, t := range n.List("targets") {
			w.deleted[w.text(t)] = n.Start
		}
	case n.Is("Call"):
		w.call(n, p)
	default:
		n.Children(func(c *syntax.Node) { w.visit(c, p) })
	}
}

func (w *placedCalls) call(n *syntax.Node, p site) {
	name := w.text(n.Part("func"))
	last := name[strings.LastIndexByte(name, '.')+1:]
	p.line, p.start = n.Line, n.Start
	c := placed{call: name, site: p}
	if args := n.List("args"); len(args) > 0 {
		c.which = w.text(args[0])
	}
	for _, k := range n.List("keywords") {
		if k.Name == "model_name" || k.Name == "pretrained_model_name_or_path" {
			c.which = w.text(k.Part("value"))
		}
	}
	switch {
	case loadsModel.MatchString(name) && !loadsAdapters.MatchString(name):
		w.loads = append(w.loads, c)
	case last == "BitsAndBytesConfig":
		w.quantizations = append(w.quantizations, c)
	case strings.HasSuffix(last, "Trainer"):
		w.trainers = append(w.trainers, c)
	case last == "train" && name != last:
		w.trains = append(w.trains, c)
	case last == "get_peft_model" && p.name != "":
		w.aliases[c.which] = p.name // the adapters' model is that of its base
	}
	w.visit(n.Part("func"), p)
	reference := Kinds[strings.ToLower(strings.TrimSuffix(last, "Trainer"))].Reference
	for i, a := range n.List("args") {
		w.hand(a, p, reference && i == 1)
	}
	for _, k := range n.List("keywords") {
		w.hand(k.Part("value"), p, strings.HasSuffix(last, "Trainer") && slices.Contains(heldModels, k.Name))
	}
}

// hand visits an argument.
func (w *placedCalls) hand(a *syntax.Node, p site, holds bool) {
	inner := p
	inner.handed = p.handed || holds
	w.visit(a, inner)
	if holds && a.Is("Name", "Attribute") {
		w.handed[w.text(a)] = true
	}
}

func (p *Program) placedCalls() *placedCalls {
	if p.placed == nil {
		w := &placedCalls{source: p.Source, handed: map[string]bool{}, aliases: map[string]string{},
			deleted: map[string]int{}}
		w.visit(p.Tree(), site{})
		p.placed = w
	}
	return p.placed
}

// counted says whether a trainer is given a name, or what another name stands for, for its kind of training.
func (w *placedCalls) counted(name string) bool {
	if name == "" {
		return false
	}
	if w.handed[name] {
		return true
	}
	for alias, of := range w.aliases {
		if of == name && w.handed[alias] {
			return true
		}
	}
	return false
}

// ModelsBeside asks about models that a program loads beside the one that it trains, as distillation does: their
// weights lie on the card too. Not those of another branch, or of the same name; not those of functions that neither
// train nor load the trained model; not those that a trainer is handed for its kind of training; not those that are
// loaded when the training is over.
func (p *Program) ModelsBeside(trained decode.Call, d *draft.Draft) {
	w := p.placedCalls()
	i := slices.IndexFunc(w.loads, func(l placed) bool { return l.line <= trained.Line && trained.Line <= l.line+1 })
	if i < 0 {
		return
	}
	own := w.loads[i]
	reached := func(l placed) bool {
		return slices.ContainsFunc(p.Calls, func(c decode.Call) bool { return c.Line == l.line && c.Name == l.call })
	}
	trains := func(f *syntax.Node) bool {
		return f == nil || f == own.function || f.Name == "__init__" || // an object that holds it
			slices.ContainsFunc(w.trainers, func(t placed) bool { return t.function == f })
	}
	for k, l := range w.loads {
		over := slices.ContainsFunc(w.trains, func(t placed) bool { return t.start < l.start })
		ended, isDeleted := w.deleted[own.name]
		switch {
		case k == i, !reached(l), l.handed, w.counted(l.name), l.apart(own.site), over, !trains(l.function),
			l.name == own.name && l.name != "", isDeleted && ended < l.start,
			w.aliases[l.name] != "" && w.aliases[l.name] == own.name:
			continue
		}
		d.Ask("/reserve_bytes", "How many bytes does the model of "+draft.Clip(l.which)+" take beside the trained one?",
			setting.Span{File: p.File, Line: l.line}.Where()+": "+l.call+" loads it and is not what is trained")
	}
}

// WithTheModel says whether a quantization stands where the trained model is loaded, so that one has the other.
func (p *Program) WithTheModel(c decode.Call) bool {
	model, ok := p.ModelCall()
	if !ok {
		return false
	}
	w := p.placedCalls()
	for _, q := range w.quantizations {
		for _, l := range w.loads {
			if q.line == c.Line && l.line == model.Line && len(q.branches) > 0 && slices.Equal(q.branches, l.branches) {
				return true
			}
		}
	}
	return false
}

// ownStepMethods are methods of a trainer's subclass that put the program's own step in the place of the library's
// (transformers 5.23 trainer.py: what train() calls for each micro-batch; trl's DPOTrainer).
var ownStepMethods = []string{"compute_loss", "training_step", "concatenated_forward", "get_batch_loss_metrics"}

// OwnSteps doubts a program whose trainer computes its loss itself.
func (p *Program) OwnSteps(d *draft.Draft) {
	w := p.placedCalls()
	p.Tree().Walk(func(n *syntax.Node) bool {
		derives := n.Is("ClassDef") && slices.ContainsFunc(n.List("bases"), func(b *syntax.Node) bool {
			return strings.HasSuffix(w.text(b), "Trainer")
		})
		if !derives || !p.calls(n.Name) {
			return true
		}
		for _, f := range n.List("body") {
			if f.Is("FunctionDef") && slices.Contains(ownStepMethods, f.Name) && !w.passesOn(f) {
				d.Uncertain("/training", "what %s.%s keeps (%s) is not in the answer, which is of the library's own step",
					n.Name, f.Name, setting.Span{File: p.File, Line: f.Line}.Where())
			}
		}
		return true
	})
}

// calls says whether the program makes something of a class.
func (p *Program) calls(class string) bool {
	_, ok := p.Call(class)
	return ok
}

// passesOn says whether a method only returns what the library's does.
func (w *placedCalls) passesOn(f *syntax.Node) bool {
	body := f.List("body")
	if len(body) != 1 || !body[0].Is("Return") {
		return false
	}
	return strings.HasPrefix(w.text(body[0].Part("value")), "super()."+f.Name+"(")
}
