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
	maxKinds      = 64
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
	// Parameters are those outside the layers, which are moved behind the first LayersAfter of them.
	Parameters  []Parameter
	LayersAfter int
	Layers      int64
	LayersName  string
	// Kinds are the layers that differ from one another, none where no layers repeat; layer i is of the kind that
	// Order names at i modulo its length.
	Kinds []LayerKind
	Order []int
	// Programs by precision: amp, half, fp32 and mixed. Evaluations are those of a forward in evaluation mode and
	// without a graph, of the precisions in which the recorder could tell one.
	Programs, Evaluations map[string]*Program
	// Linears are the linear layers outside the layers that repeat.
	Linears []Linear
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
	// Breaks says where torch.compile breaks the graph, "" where the recorder did not look.
	Breaks Breaks
	// Unexpressed is what the recorder could not write down, Unfolded why no layers repeat.
	Unexpressed, Unfolded []string
	// Holds is where the recording was found to hold.
	Holds Holds

	// sizes are those that were read, common the blocks of all programs that have none of their own, unfolded is for
	// how many lines blocks may still stand.
	sizes    map[string]Size
	common   [][]string
	unfolded int
}

// LayerKind is what the layers of one kind have: parameters, and linear layers among them.
type LayerKind struct {
	Parameters []Parameter
	Linears    []Linear
}

// KindOf is the place in Kinds of layer i.
func (r *Recording) KindOf(i int64) int { return r.Order[i%int64(len(r.Order))] }

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
	// Type is a buffer's, and that of a parameter which has one of its own.
	Type Type
	// Own says that it has its type whatever the others have: half precision stays where the weights are float32.
	Own bool
}

// Numel is the number of elements.
func (p *Parameter) Numel() int64 {
	n := int64(1)
	for _, d := range p.Shape {
		n *= d
	}
	return n
}

// like says whether two parameters of different layers take the same memory.
func (p Parameter) like(q Parameter) bool {
	return slices.Equal(p.Shape, q.Shape) && p.Buffer == q.Buffer && p.Frozen == q.Frozen && p.Type == q.Type &&
		p.Own == q.Own
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
	Holds       Holds                      `json:"holds"`
	OtherStacks []string                   `json:"other_stacks"`
	Checkpoints string                     `json:"checkpoints"`
	Breaks      string                     `json:"breaks"`
	// Blocks are lines that stand more than once in the programs.
	Blocks [][]string `json:"blocks"`
	Digest string     `json:"digest"`
}

type layers struct {
	Count      int64      `json:"count"`
	Name       string     `json:"name"`
	Parameters []string   `json:"parameters"`
	After      int        `json:"after"`
	Others     [][]string `json:"others"`
	Order      []int      `json:"order"`
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
	// Blocks are lines that stand more than once in Before and After, in recordings that have no common ones.
	Blocks [][]string `json:"blocks"`
	// Others are the layers of the other kinds.
	Others []layerDocument `json:"others"`
}

type layerDocument struct {
	Layer   []string `json:"layer"`
	Output  string   `json:"output"`
	Escapes []string `json:"escapes"`
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
	d, isPlain := readPlain(text)
	if !isPlain {
		var err error
		if d, err = decode(text); err != nil {
			return nil, &Error{"", fmt.Errorf("this is no recording: %w", err)}
		}
	}
	if d.Format != Format {
		return nil, at("/vramplan_recording", "the format is %d; %d is read", d.Format, Format)
	}
	r := &Recording{Name: d.Name, Source: d.Source, Digest: d.Digest, Versions: d.Versions, Sequence: d.Sequence,
		Padded: d.Padded, Layers: d.Layers.Count, LayersName: d.Layers.Name, LayersAfter: d.Layers.After,
		Programs: map[string]*Program{}, Evaluations: map[string]*Program{}, Unfolded: d.Unfolded,
		Checkpoints: d.Checkpoints, Breaks: Breaks(d.Breaks), Unexpressed: d.Unexpressed, Unadaptable: d.Unadaptable,
		OtherStacks: d.OtherStacks, Holds: d.Holds,
		sizes: map[string]Size{}, unfolded: maxUnfolded}
	if !r.Breaks.known() {
		return nil, at("/breaks", "%.20q is none of none, loss, model and outside", d.Breaks)
	}
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
	if err := d.Holds.check(); err != nil {
		return nil, err
	}
	if d.Layers.Count < 0 || d.Layers.Count > maxLayers {
		return nil, at("/layers/count", "is %d; it is from 0 to %d", d.Layers.Count, maxLayers)
	}
	if c := d.Checkpoints; c != "" && (c != "reentrant" && c != "plain" || d.Layers.Count == 0) {
		return nil, at("/checkpoints", "is %.40q; it is reentrant or plain, of layers that repeat", c)
	}
	var err error
	if r.common, err = d.common(&r.unfolded); err != nil {
		return nil, err
	}
	if err := r.read(&d); err != nil {
		return nil, err
	}
	r.sizes, r.common = nil, nil
	return r, nil
}

// common are the blocks of all programs; they count among the lines that are written, left of which uses may stand for.
func (d *document) common(left *int) ([][]string, error) {
	n := 0
	for i := range d.Blocks {
		n += len(d.Blocks[i])
	}
	if len(d.Blocks) > maxBlocks || n > maxLines {
		return nil, at("/blocks", "are %d of %d lines; up to %d of %d are accepted", len(d.Blocks), n, maxBlocks, maxLines)
	}
	*left += mostTimes * n
	return d.Blocks, nil
}

// decode is what encoding/json reads of text.
func decode(text []byte) (d document, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return d, decoder.Decode(&d)
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
	if err := r.readKinds(&d.Layers, &total); err != nil {
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
	var regions [][][]*Region
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
			var found [][]*Region
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

// parameter reads "name 768x2304 parameter" or "name 64 buffer f32", the first with "frozen" where no gradient is
// wanted. A type of its own stands behind "=": "name 768x2304 parameter =bf16 frozen", "name 64 buffer =bf16".
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
		p.Own = len(rest) > 0 && strings.HasPrefix(rest[0], "=")
	case "buffer":
		if p.Buffer = true; len(rest) == 0 {
			return p, 0, fmt.Errorf("%.80q: a buffer has a type", line)
		}
		p.Own = strings.HasPrefix(rest[0], "=")
	default:
		return p, 0, fmt.Errorf("%.80q is neither parameter nor buffer", line)
	}
	if p.Buffer || p.Own {
		fields := reader{}
		if p.Type, rest = fields.kind(strings.TrimPrefix(rest[0], "=")), rest[1:]; fields.err != nil {
			return p, 0, fields.err
		}
	}
	switch {
	case len(rest) == 1 && rest[0] == "frozen" && !p.Buffer:
		p.Frozen = true
	case len(rest) > 0:
		return p, 0, fmt.Errorf("%.80q has more than a parameter has", line)
	}
	return p, elements, nil
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}
