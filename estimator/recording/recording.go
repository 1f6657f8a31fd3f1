package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Format is the version of the format that is read.
const Format = 1

// The limits of a recording.
const (
	maxName       = 200
	maxWidth      = 1 << 24
	maxLayers     = 1024
	maxParameters = 20_000
	maxBatch      = 64
	maxElements   = 1e14
	maxOutputList = 10_000
)

// Recording is a module as the recorder saw it.
type Recording struct {
	Name, Source, Digest string
	Versions             map[string]string
	// Sequence is the length of the sequences where only that one was recorded; 0 where any is planned. Padded says
	// that some tokens of the batch are padding.
	Sequence int64
	Padded   bool
	Batch    []Tensor
	// Parameters are those outside the layers, PerLayer those of one; the layers' are moved behind the first
	// LayersAfter of Parameters.
	Parameters, PerLayer []Parameter
	LayersAfter          int
	Layers               int64
	LayersName           string
	// Programs by precision: amp, half, fp32 and mixed. Evaluations are those of a forward in evaluation mode and
	// without a graph, of the precisions in which the recorder could tell one.
	Programs, Evaluations map[string]*Program
	// Linears are the linear layers outside the layers that repeat, PerLayerLinears those of one of them.
	Linears, PerLayerLinears []Linear
	// Modules are the input embedding, the last norm and the head by their roles, where the recorder could tell them;
	// TiedHead says that the head's matrix is another module's.
	Modules  map[Role]string
	TiedHead bool
	// Unadaptable are linear layers that stand in no program as a whole, so that no adapter can be put on them.
	Unadaptable []string
	// OtherStacks are lists of layers beside the one that is stored once: checkpointing would act on them, too.
	OtherStacks []string
	// Checkpoints says how the module checkpoints each of its layers itself: reentrant, plain, or "" for not at all.
	Checkpoints string
	// Unexpressed is what the recorder could not write down, Unfolded why no layers repeat.
	Unexpressed, Unfolded []string

	sizes map[string]Size // while it is read
}

// Tensor is one of the batch.
type Tensor struct {
	Size Size
	Type Type
}

// Parameter is a parameter or a buffer.
type Parameter struct {
	Name   string
	Shape  []int64
	Buffer bool
	Frozen bool
	// Type is a buffer's.
	Type Type
}

// Numel is the number of elements.
func (p *Parameter) Numel() int64 {
	n := int64(1)
	for _, d := range p.Shape {
		n *= d
	}
	return n
}

// document is a recording as it is written.
type document struct {
	Format      int                        `json:"vramplan_recording"`
	Name        string                     `json:"name"`
	Source      string                     `json:"source"`
	Versions    map[string]string          `json:"versions"`
	Sequence    int64                      `json:"sequence"`
	Padded      bool                       `json:"padded"`
	Batch       []string                   `json:"batch"`
	Parameters  []string                   `json:"parameters"`
	Layers      layers                     `json:"layers"`
	Programs    map[string]programDocument `json:"programs"`
	Evaluations map[string]programDocument `json:"evaluations"`
	Unfolded    []string                   `json:"unfolded"`
	Unexpressed []string                   `json:"unexpressed"`
	Unadaptable []string                   `json:"unadaptable"`
	OtherStacks []string                   `json:"other_stacks"`
	Checkpoints string                     `json:"checkpoints"`
	Digest      string                     `json:"digest"`
}

type layers struct {
	Count      int64    `json:"count"`
	Name       string   `json:"name"`
	Parameters []string `json:"parameters"`
	After      int      `json:"after"`
}

type programDocument struct {
	Before  []string `json:"before"`
	Input   string   `json:"input"`
	Given   []string `json:"given"`
	Layer   []string `json:"layer"`
	Output  string   `json:"output"`
	Escapes []string `json:"escapes"`
	After   []string `json:"after"`
	Outputs []string `json:"outputs"`
	Loss    string   `json:"loss"`
}

// Error is what is wrong with a recording, and where in it.
type Error struct {
	// Pointer is the place, as of RFC 6901.
	Pointer string
	Err     error
}

func (e *Error) Error() string { return e.Pointer + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func at(pointer string, format string, args ...any) error {
	return &Error{pointer, fmt.Errorf(format, args...)}
}

// Read reads a recording. The error is an *[Error].
func Read(text []byte) (*Recording, error) {
	var d document
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return nil, &Error{"", fmt.Errorf("this is no recording: %w", err)}
	}
	if d.Format != Format {
		return nil, at("/vramplan_recording", "the format is %d; %d is read", d.Format, Format)
	}
	r := &Recording{Name: d.Name, Source: d.Source, Digest: d.Digest, Versions: d.Versions, Sequence: d.Sequence,
		Padded: d.Padded, Layers: d.Layers.Count, LayersName: d.Layers.Name, LayersAfter: d.Layers.After,
		Programs: map[string]*Program{}, Evaluations: map[string]*Program{}, Unfolded: d.Unfolded,
		Checkpoints: d.Checkpoints, Unexpressed: d.Unexpressed, Unadaptable: d.Unadaptable, OtherStacks: d.OtherStacks,
		sizes: map[string]Size{}}
	named := map[string]string{"/name": d.Name, "/source": d.Source, "/digest": d.Digest,
		"/layers/name": d.Layers.Name}
	for pointer, s := range named {
		if len(s) > maxName {
			return nil, at(pointer, "has %d bytes; up to %d are accepted", len(s), maxName)
		}
	}
	if len(d.Versions) > 32 || len(d.Unexpressed) > maxBatch || len(d.Unfolded) > maxBatch ||
		len(d.OtherStacks) > maxBatch {
		return nil, at("", "versions, unfolded, other_stacks or unexpressed are too long")
	}
	if d.Name == "" {
		return nil, at("/name", "is missing")
	}
	if d.Sequence < 0 || d.Sequence > 1<<30 {
		return nil, at("/sequence", "is %d; it is from 0 to %d", d.Sequence, 1<<30)
	}
	if d.Layers.Count < 0 || d.Layers.Count > maxLayers {
		return nil, at("/layers/count", "is %d; it is from 0 to %d", d.Layers.Count, maxLayers)
	}
	if c := d.Checkpoints; c != "" && (c != "reentrant" && c != "plain" || d.Layers.Count == 0) {
		return nil, at("/checkpoints", "is %.40q; it is reentrant or plain, of layers that repeat", c)
	}
	if err := r.read(&d); err != nil {
		return nil, err
	}
	r.sizes = nil
	return r, nil
}

func (r *Recording) read(d *document) error {
	var err error
	if len(d.Batch) == 0 || len(d.Batch) > maxBatch {
		return at("/batch", "has %d tensors; it has 1 to %d", len(d.Batch), maxBatch)
	}
	for i, text := range d.Batch {
		size, kind, _ := strings.Cut(text, " ")
		fields := reader{}
		t := Tensor{fields.size(size), fields.kind(kind)}
		if fields.err != nil {
			return at("/batch/"+strconv.Itoa(i), "%w", fields.err)
		}
		r.Batch = append(r.Batch, t)
	}
	total := 0.0
	if r.Parameters, err = parameters("/parameters", d.Parameters, 1, &total); err != nil {
		return err
	}
	repeated := float64(max(r.Layers, 1))
	if r.PerLayer, err = parameters("/layers/parameters", d.Layers.Parameters, repeated, &total); err != nil {
		return err
	}
	if r.LayersAfter < 0 || r.LayersAfter > len(r.Parameters) {
		return at("/layers/after", "is %d; it is from 0 to %d", r.LayersAfter, len(r.Parameters))
	}
	if len(d.Programs) == 0 {
		return at("/programs", "there is none")
	}
	if len(d.Unadaptable) > maxParameters {
		return at("/unadaptable", "are %d; up to %d are accepted", len(d.Unadaptable), maxParameters)
	}
	var regions [][2][]*Region
	for _, k := range []struct {
		of      string
		written map[string]programDocument
		read    map[string]*Program
	}{{"programs", d.Programs, r.Programs}, {"evaluations", d.Evaluations, r.Evaluations}} {
		for _, name := range sorted(k.written) {
			if !slices.Contains(precisions, name) {
				return at("/"+k.of+"/"+pointerToken(name), "is no kind of precision; %s are",
					strings.Join(precisions, ", "))
			}
			p := k.written[name]
			var found [2][]*Region
			if k.read[name], found, err = r.program("/"+k.of+"/"+name, &p, k.of == "evaluations"); err != nil {
				return err
			}
			regions = append(regions, found)
		}
	}
	if err := r.linears(regions); err != nil {
		return at("/programs", "%w", err)
	}
	return nil
}

func parameters(pointer string, lines []string, times float64, total *float64) ([]Parameter, error) {
	if len(lines) > maxParameters {
		return nil, at(pointer, "are %d; up to %d are accepted", len(lines), maxParameters)
	}
	list := make([]Parameter, 0, len(lines))
	for i, line := range lines {
		p, elements, err := parameter(line)
		if err != nil {
			return nil, at(pointer+"/"+strconv.Itoa(i), "%w", err)
		}
		if *total += times * elements; *total > maxElements {
			return nil, at(pointer, "the model has more than %.0e parameters", maxElements)
		}
		list = append(list, p)
	}
	return list, nil
}

// parameter reads "name 768x2304 parameter" or "name 64 buffer f32", both with "frozen" where no gradient is wanted.
func parameter(line string) (p Parameter, elements float64, err error) {
	f := strings.Split(line, " ")
	if len(f) < 3 || len(f) > 5 || len(f[0]) > maxName || len(f[0]) == 0 {
		return p, 0, fmt.Errorf("%.80q is no parameter: a name, a shape and what it is", line)
	}
	p.Name, elements = f[0], 1
	dimensions := strings.Split(f[1], "x")
	if len(dimensions) > 8 {
		return p, 0, fmt.Errorf("%.80q has more than 8 dimensions", line)
	}
	for _, d := range dimensions {
		n, err := strconv.ParseUint(d, 10, 40)
		if err != nil {
			return p, 0, fmt.Errorf("%.80q: %.20q is no dimension", line, d)
		}
		p.Shape = append(p.Shape, int64(n))
		elements *= float64(n)
	}
	if elements > maxElements {
		return p, 0, fmt.Errorf("%.80q is too large", line)
	}
	rest := f[3:]
	switch f[2] {
	case "parameter":
	case "buffer":
		if p.Buffer = true; len(rest) == 0 {
			return p, 0, fmt.Errorf("%.80q: a buffer has a type", line)
		}
		fields := reader{}
		if p.Type, rest = fields.kind(rest[0]), rest[1:]; fields.err != nil {
			return p, 0, fields.err
		}
	default:
		return p, 0, fmt.Errorf("%.80q is neither parameter nor buffer", line)
	}
	switch {
	case len(rest) == 1 && rest[0] == "frozen" && !p.Buffer:
		p.Frozen = true
	case len(rest) > 0:
		return p, 0, fmt.Errorf("%.80q has more than a parameter has", line)
	}
	return p, elements, nil
}

// program reads one program, of an evaluation where nothing has a graph.
func (r *Recording) program(pointer string, d *programDocument, noGraph bool) (*Program, [2][]*Region, error) {
	var none [2][]*Region
	if n := len(d.Before) + len(d.Layer) + len(d.After); n > maxLines {
		return nil, none, at(pointer, "has %d lines; up to %d are accepted", n, maxLines)
	}
	if len(d.Outputs)+len(d.Escapes)+len(d.Given) > maxOutputList {
		return nil, none, at(pointer, "has more than %d outputs", maxOutputList)
	}
	p := &Program{}
	outer := &scope{model: len(r.Parameters), sizes: r.sizes, noGraph: noGraph}
	for range r.Batch {
		outer.own = append(outer.own, true)
	}
	var err error
	if p.Before, err = outer.stretch(d.Before); err != nil {
		return nil, none, at(pointer+"/before", "%w", err)
	}
	last := outer
	var inner *scope
	if r.Layers > 0 {
		if p.Input, err = outer.result(d.Input); err != nil {
			return nil, none, at(pointer+"/input", "%w", err)
		}
		inner = &scope{outer: outer, input: true, model: len(r.Parameters), layer: len(r.PerLayer),
			shared: map[int]bool{}, sizes: r.sizes, noGraph: noGraph}
		if p.Layer, err = inner.stretch(d.Layer); err != nil {
			return nil, none, at(pointer+"/layer", "%w", err)
		}
		if p.Output, err = inner.result(d.Output); err != nil {
			return nil, none, at(pointer+"/output", "%w", err)
		}
		if p.Output.Value.Scope != Own {
			return nil, none, at(pointer+"/output", "a layer returns what it made")
		}
		if p.Escapes, err = inner.outputs(d.Escapes); err != nil {
			return nil, none, at(pointer+"/escapes", "%w", err)
		}
		given, err := outer.outputs(d.Given)
		if err != nil {
			return nil, none, at(pointer+"/given", "%w", err)
		}
		for _, ref := range given {
			if ref.Scope != Own {
				return nil, none, at(pointer+"/given", "a layer is given what was made before the layers")
			}
			inner.shared[ref.N] = true
		}
		for n := range inner.shared {
			p.Shared = append(p.Shared, n)
		}
		sort.Ints(p.Shared)
		p.LayerValues, p.LayerNodes = len(inner.own), len(inner.nodes)
		last.input = true
	} else if len(d.Layer)+len(d.After) > 0 {
		return nil, none, at(pointer+"/layer", "there are no layers")
	}
	if p.After, err = last.stretch(d.After); err != nil {
		return nil, none, at(pointer+"/after", "%w", err)
	}
	if p.Outputs, err = last.outputs(d.Outputs); err != nil {
		return nil, none, at(pointer+"/outputs", "%w", err)
	}
	if p.Loss, err = last.result(d.Loss); err != nil {
		return nil, none, at(pointer+"/loss", "%w", err)
	}
	if p.Loss.Value.Scope != Own || p.Loss.Edge.Scope != Own && !noGraph {
		return nil, none, at(pointer+"/loss", "no gradient reaches it")
	}
	p.Values, p.Nodes = len(last.own), len(last.nodes)
	found := [2][]*Region{outer.regions}
	if inner != nil {
		found[1] = inner.regions
	}
	return p, found, nil
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}
