// Package finish does what is done with every job after its tool has read it: GPUs are counted, words that nobody
// read are listed or asked about, what the user said is laid over it, and doubts are collected.
package finish

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Table is what is known of all tools together.
type Table struct {
	// Switches are words that take no value: what stands behind one need not be its value.
	Switches map[string]bool
	// Commands are programs that do what their settings say and nothing else; every other program may hold code of the
	// user's.
	Commands map[string]bool
}

// TableOf collects what tools say of their words and commands.
func TableOf(tools []*tool.Tool) Table {
	t := Table{Switches: map[string]bool{}, Commands: map[string]bool{}}
	add := func(word string) {
		if name, isSwitch := strings.CutSuffix(word, "="); isSwitch {
			t.Switches[name] = true
		}
	}
	for _, words := range launch.Still {
		for word := range words {
			add(word)
		}
	}
	for _, of := range tools {
		for word := range strings.FieldsSeq(of.Still) {
			add(word)
		}
		if of.Faithful {
			t.Commands[of.Command] = true
		}
	}
	return t
}

// closing is a job that its tool has read.
type closing struct {
	*tool.Job
	table *Table
}

// Finish adds what all tools have in common, after the tool's own reader.
func (t *Table) Finish(j *tool.Job) {
	r := &closing{Job: j, table: t}
	r.spread()
	if r.Lost != "" {
		r.Out.Uncertain("", "the files that it names are those that lie here: %s", r.Lost)
	}
	if r.Maybe != "" {
		r.Out.Settle("", "the command runs: %s", r.Maybe) // whether it does is a doubt of the command
	}
	for _, say := range r.Taken {
		r.Out.Settle("", "%s", say)
	}
	for _, note := range r.Notes {
		r.Out.Uncertain("", "%s", note)
	}
	if r.In != nil {
		r.Out.Overridden = append(r.Out.Overridden, r.In.Losers()...)
		r.unread(r.In)
	}
	r.SetAllocator()
	r.launcherWords()
	r.quantized()
	r.ownCode()
	r.scheduledCards()
	r.pinned()
	r.apply()
	r.Fill()
	r.Out.PlainKind()
	if v, ok := r.Out.Fields["/training/micro_batch"]; ok && v.Value == nil {
		r.Out.Drop("/training/micro_batch")
	}
	if !r.Out.Has("/training/micro_batch") {
		r.Out.Ask("/training/micro_batch", "How many sequences does one GPU take at a time?", "")
	}
	if !r.Out.Has("/model") {
		r.Out.Ask("/model", "Which model is trained?", "")
	}
	r.doubt()
}

// pinned puts the releases into the document that a file beside the job pins, of the packages that decide what is
// allocated. trl's count where its trainers run.
func (r *closing) pinned() {
	for _, name := range []string{"torch", "transformers", "peft", "trl"} {
		pointer := "/training/versions/" + name
		if r.Out.Has(pointer) || name == "trl" && r.Out.Text("/training/framework") != "trl" {
			continue
		}
		if v := r.Pinned(name); v.Text != "" {
			r.Out.Put(pointer, v.Text, v)
		}
	}
}

// spread sets the number of GPUs: of a job that is dealt out, or that runs on several.
func (r *closing) spread() {
	if r.Out.Has("/training/distributed/world_size") {
		return
	}
	w := r.World()
	if n := r.Files.Source.GPUs; n > 0 {
		w = launch.Count{N: n, Known: true,
			From: setting.Value{Any: n, Origin: setting.Origin{Kind: setting.Said, Key: "--gpus"}}}
	}
	sharded := r.Out.Has("/training/distributed")
	switch {
	case w.Known && (w.N > 1 || sharded):
		from := w.From
		if from.Origin.Kind == "" {
			from.Origin = setting.Origin{Kind: setting.Derived, How: w.How}
		}
		r.Out.Put("/training/distributed/world_size", w.N, from)
		if !r.Out.Has("/training/distributed/data") && !r.Sharded {
			r.Out.Derive("/training/distributed/data", "ddp", "%d processes, and nothing that deals the model out", w.N)
			r.findUnused()
		}
	case w.Known:
	case sharded:
		r.Out.Ask("/training/distributed/world_size", "On how many GPUs does it run?", launch.Because(w))
	default:
		r.Out.Assume("/training/distributed/world_size", "one GPU: %s; --gpus N says otherwise", launch.Because(w))
	}
}

// findUnused reads ddp_find_unused_parameters of a job with adapters, of which it decides whether reentrant checkpoints
// run at all.
func (r *closing) findUnused() {
	if r.In == nil || !r.Out.Has("/training/lora") {
		return
	}
	if v, ok := r.In.Get("ddp_find_unused_parameters"); ok {
		if on, is := v.Bool(); is {
			r.Out.Put("/training/distributed/find_unused_parameters", on, v)
		}
	}
}

// unread asks about words that may change the memory and that nobody read; the others are listed.
func (r *closing) unread(s *setting.Settings) {
	ignore := setting.SetOf(r.Files.Source.Ignore...)
	for _, key := range s.Rest() {
		if i := strings.LastIndexByte(key, '.'); i > 0 && s.Has(key[:i]) &&
			strings.Trim(key[i+1:], "0123456789") == "" {
			continue // an element of a list, which is there as a whole
		}
		v, _ := s.Peek(key)
		name := strings.TrimLeft(v.Origin.Key, "-")
		if ignore[key] || ignore[name] || ignore[v.Origin.Key] || v.Off() || !tool.MayChangeMemory(key, v) {
			r.Out.Ignored = append(r.Out.Ignored, v)
			continue
		}
		r.Out.AskWord(v)
	}
}
