package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/recording"
)

// Wanted is a model of the reference cases to be recorded: what of a job changes the recording.
type Wanted struct {
	// ID names the file that the recording is written to, without .json.
	ID      string          `json:"id"`
	Config  json.RawMessage `json:"config,omitempty"`
	NanoGPT *model.NanoGPT  `json:"nanogpt,omitempty"`
	// Attention is eager, or "" for torch's own; Cache says that the layers fill a key/value cache, Padded that some
	// tokens of a batch are padding, TargetTokens how long the labels of an encoder-decoder are, 0 as long as its
	// inputs.
	Attention    string `json:"attention,omitempty"`
	Cache        bool   `json:"cache"`
	Padded       bool   `json:"padded"`
	TargetTokens int64  `json:"target_tokens,omitempty"`
	// Tokens are the lengths that cases ask for: where a module cannot be recorded for all, each is recorded by itself.
	Tokens     []int64  `json:"tokens"`
	Precisions []string `json:"precisions"`
	// Float16 says that cases compute in float16, where some modules do otherwise than in bfloat16.
	Float16 bool `json:"float16,omitempty"`
	// OneSample says that cases have batches of one sample, some of whose tensors lie otherwise.
	OneSample bool `json:"one_sample,omitempty"`
}

// wantedOf is what a case needs a recording of; false where no recording can answer it, and where it is one under
// torch.compile and compiled ones are not asked for, or the other way round.
func wantedOf(c *Case, compiled bool) (w Wanted, ok bool) {
	m, t := &c.Job.Model, &c.Job.Training
	if m.HFConfig == nil && m.NanoGPT == nil || t.Objective != nil || t.Dropout != nil || m.Head != nil ||
		compiled != (t.Compile != nil && (t.Compile.Model || t.Compile.Loss)) || compiled && !t.Compile.Model {
		return w, false
	}
	// transformers keeps the mask under torch.compile
	w = Wanted{Config: m.HFConfig, NanoGPT: m.NanoGPT,
		Padded: t.AttentionMask == "explicit" || compiled && m.NanoGPT == nil,
		Cache: t.GradientCheckpointing == nil || t.GradientCheckpointing.Mode == "none" ||
			t.GradientCheckpointing.Mode == "selective",
		TargetTokens: t.TargetSequenceLength}
	if t.Attention == "eager" {
		w.Attention = "eager"
	}
	text, err := json.Marshal(w)
	if err != nil {
		return w, false
	}
	sum := sha256.Sum256(text)
	w.ID = hex.EncodeToString(sum[:6])
	w.Tokens = []int64{t.SequenceLength}
	w.Precisions = kindsOf(t)
	w.OneSample = t.MicroBatch == 1
	w.Float16 = strings.HasSuffix(string(t.Precision), "fp16")
	return w, true
}

// kindsOf are the kinds of precision that a job may take of a recording.
func kindsOf(t *estimator.Training) []string {
	switch p := string(t.Precision); {
	case p == "fp32" || p == "tf32":
		return []string{"fp32"}
	case p == "bf16" || p == "fp16":
		return []string{"half"}
	case t.LoRA != nil && t.LoRA.BasePrecision != "":
		return []string{"amp", "mixed", recording.Packed}
	case t.LoRA != nil || t.States != nil || t.Distributed != nil:
		return []string{"amp", "mixed"}
	}
	return []string{"amp"}
}

// writeWanted lists the models of all cases, each once, a line each, for recorder/families.py.
func writeWanted(w io.Writer, cases []Case, compiled bool) error {
	var order []string
	all := map[string]*Wanted{}
	for i := range cases {
		one, ok := wantedOf(&cases[i], compiled)
		if !ok {
			continue
		}
		if all[one.ID] == nil {
			order, all[one.ID] = append(order, one.ID), &one
			continue
		}
		have := all[one.ID]
		have.Float16 = have.Float16 || one.Float16
		have.OneSample = have.OneSample || one.OneSample
		for _, n := range one.Tokens {
			if !slices.Contains(have.Tokens, n) {
				have.Tokens = append(have.Tokens, n)
			}
		}
		for _, p := range one.Precisions {
			if !slices.Contains(have.Precisions, p) {
				have.Precisions = append(have.Precisions, p)
			}
		}
	}
	out := json.NewEncoder(w)
	for _, id := range order {
		if err := out.Encode(all[id]); err != nil {
			return fmt.Errorf("listing what is to be recorded: %w", err)
		}
	}
	return nil
}

// Recorded holds recordings of transformers' own code against the families that were described by hand.
type Recorded struct {
	Rows []RecordedRow
	// Compiled says that the rows are of modules under torch.compile.
	Compiled bool
	// Traced are the rows whose trace is of the releases that were recorded, TracedEqual those that the recording is
	// equal to, FamilyEqual those that the family is equal to.
	Traced, TracedEqual, FamilyEqual int
}

// RecordedRow is the job of a case, answered twice for the releases of the recording.
type RecordedRow struct {
	Case
	Family string
	// ByHand and Shown are allocated bytes by the family and by the recording.
	ByHand, Shown int64
	// Traced says that the row's trace is of the releases that were recorded.
	Traced bool
	// Refused says why there is nothing to compare.
	Refused string
}

// Off is Shown / ByHand − 1.
func (r *RecordedRow) Off() float64 { return float64(r.Shown)/float64(r.ByHand) - 1 }

// compareRecorded answers every case that has a recording in dir by it and by its family.
func compareRecorded(dir string, cases []Case, compiled bool) (*Recorded, error) {
	out := &Recorded{Compiled: compiled}
	for _, c := range cases {
		w, ok := wantedOf(&c, compiled)
		if !ok {
			continue
		}
		row := RecordedRow{Case: c, Family: familyOf(&c)}
		text, err := readFirst(dir, namesOf(&w))
		switch {
		case errors.Is(err, os.ErrNotExist):
			row.Refused = "the recorder: " + refusalOf(dir, w.ID)
		case err != nil:
			return nil, fmt.Errorf("reading a recording: %w", err)
		default:
			made, err := recording.Read(text)
			if err != nil {
				return nil, fmt.Errorf("recording %s: %w", w.ID, err)
			}
			row.answer(text, made)
			out.trace(&row, made)
			if traced := cmp.Or(c.Versions["torch"], "2.9.1"); compiled && row.Refused == "" &&
				!sameRelease(traced, made.Versions["torch"]) {
				row.Refused = "was traced with torch " + traced
			}
		}
		out.Rows = append(out.Rows, row)
	}
	if len(out.Rows) == 0 {
		return nil, errors.New("no case can be recorded")
	}
	return out, nil
}

// namesOf are the files that may have the recording: one for this length alone, one of one
// sample, one of float16, one for any.
func namesOf(w *Wanted) []string {
	names := []string{fmt.Sprintf("%s-%d.json", w.ID, w.Tokens[0])}
	if w.OneSample {
		names = append(names, w.ID+"-one.json")
	}
	if w.Float16 {
		names = append(names, w.ID+"-float16.json")
	}
	return append(names, w.ID+".json")
}

// readFirst reads the first of the files that is there.
func readFirst(dir string, names []string) (text []byte, err error) {
	for _, name := range names {
		text, err = os.ReadFile(filepath.Join(dir, name))
		if !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return text, err
}

// refusalOf is what the recorder said when it could not record id.
func refusalOf(dir, id string) string {
	text, err := os.ReadFile(filepath.Join(dir, id+".refused"))
	if err != nil {
		return "there is no recording"
	}
	return strings.TrimSpace(string(text))
}

func familyOf(c *Case) string {
	if c.Job.Model.NanoGPT != nil {
		return "nanogpt"
	}
	var named struct {
		Type string `json:"model_type"`
	}
	if err := json.Unmarshal(c.Job.Model.HFConfig, &named); err != nil {
		return "?"
	}
	return named.Type
}

// answer asks for both.
func (r *RecordedRow) answer(text []byte, made *recording.Recording) {
	job := r.Job
	job.Training.Versions = maps.Clone(job.Training.Versions)
	for _, library := range []string{"torch", "transformers"} {
		if v := made.Versions[library]; v != "" {
			job.Training.Versions[library] = v
		}
	}
	var cards []estimator.GPU
	if len(job.GPUs) > 0 {
		g := hardware[job.GPUs[0].Name]
		g.ID = job.GPUs[0].Name
		cards = []estimator.GPU{g}
	}
	byHand, err := estimator.Estimate(estimator.Input{Job: job, GPUs: cards, OwnLoop: true})
	if err != nil {
		r.Refused = "the family: " + err.Error()
		return
	}
	t := &job.Training
	if own := r.Job.Model.NanoGPT; own != nil {
		if t.Framework == "" { // which a family has of itself
			t.Framework = "nanogpt"
		}
		if t.SequenceLength == 0 {
			t.SequenceLength = own.BlockSize
		}
	}
	job.Model = estimator.Model{Recorded: text}
	t.Attention, t.TargetSequenceLength = "", 0
	if made.Sequence > 0 {
		t.SequenceLength = 0
	}
	shown, err := estimator.Estimate(estimator.Input{Job: job, GPUs: cards, OwnLoop: true})
	if err != nil {
		r.Refused = "the estimator: " + err.Error()
		return
	}
	r.ByHand, r.Shown = byHand.Peak.AllocatedBytes, shown.Peak.AllocatedBytes
}

// sameRelease says whether a trace and a recording are of the same release of a library, whatever build of it; of a
// library that the traced model does not need the trace names none.
func sameRelease(traced, recorded string) bool {
	plain, _, _ := strings.Cut(traced, "+")
	return plain == "" || plain == recorded
}

// trace counts a row whose trace is of the recorded releases.
func (r *Recorded) trace(row *RecordedRow, made *recording.Recording) {
	if row.Refused != "" || row.Versions["torch"] == "" ||
		!sameRelease(row.Versions["torch"], made.Versions["torch"]) ||
		!sameRelease(row.Versions["transformers"], made.Versions["transformers"]) {
		return
	}
	row.Traced = true
	r.Traced++
	if row.Shown == row.Truth.AllocatedBytes {
		r.TracedEqual++
	}
	if row.ByHand == row.Truth.AllocatedBytes {
		r.FamilyEqual++
	}
}

// recordedTally counts rows.
type recordedTally struct{ rows, compared, equal, within, traced, tracedEqual int }

func (n *recordedTally) add(r *RecordedRow) {
	n.rows++
	if r.Refused != "" {
		return
	}
	n.compared++
	if r.Shown == r.ByHand {
		n.equal++
	}
	if r.Traced {
		n.traced++
		if r.Shown == r.Truth.AllocatedBytes {
			n.tracedEqual++
		}
	}
	if math.Abs(r.Off()) <= allocatedBand {
		n.within++
	}
}

func (n *recordedTally) line(name string) string {
	share := func(k, of int) string {
		if of == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f %%", 100*float64(k)/float64(of))
	}
	return fmt.Sprintf("| %s | %d | %d | %s | %s | %s |", name, n.rows, n.compared, share(n.equal, n.compared),
		share(n.within, n.compared), share(n.tracedEqual, n.traced))
}

// OffTrace is Shown / what was traced − 1.
func (r *RecordedRow) OffTrace() float64 { return float64(r.Shown)/float64(r.Truth.AllocatedBytes) - 1 }

// printCompiled writes how far each row is off its trace, and why rows have no comparison.
func (r *Recorded) printCompiled(w io.Writer) {
	compared, near := 0, 0
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Refused != "" {
			fmt.Fprintf(w, "         %s: %s\n", row.ID, row.Refused)
			continue
		}
		compared++
		if math.Abs(row.OffTrace()) <= compiledBand {
			near++
		}
		fmt.Fprintf(w, "%+7.3f %% %s: %d recorded, %d by hand, %d traced\n", 100*row.OffTrace(), row.ID, row.Shown,
			row.ByHand, row.Truth.AllocatedBytes)
	}
	fmt.Fprintf(w, "%d jobs under torch.compile, %d of them compared with their traces, %d within 5 %%\n", len(r.Rows),
		compared, near)
}

// Print writes the shares by family, every difference, and why rows have no comparison.
func (r *Recorded) Print(w io.Writer) {
	if r.Compiled {
		r.printCompiled(w)
		return
	}
	var all recordedTally
	families := map[string]*recordedTally{}
	refused := map[string]int{}
	var differ []*RecordedRow
	for i := range r.Rows {
		row := &r.Rows[i]
		if families[row.Family] == nil {
			families[row.Family] = &recordedTally{}
		}
		families[row.Family].add(row)
		all.add(row)
		switch {
		case row.Refused != "":
			refused[row.Refused]++
		case row.Shown != row.ByHand:
			differ = append(differ, row)
		}
	}
	fmt.Fprintln(w, "recordings against the families described by hand, allocated bytes at the peak")
	fmt.Fprintln(w, "| rows | n | compared | equal to the byte | within 1 % | equal to their traces |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|")
	fmt.Fprintln(w, all.line("all"))
	whole, several := 0, 0
	for _, name := range slices.Sorted(maps.Keys(families)) {
		n := families[name]
		fmt.Fprintln(w, n.line(name))
		if n.compared > 0 {
			several++
		}
		if n.compared > 0 && n.equal == n.compared {
			whole++
		}
	}
	fmt.Fprintf(w, "\n%d of %d families are equal in all of their rows\n", whole, several)
	fmt.Fprintf(w, "of %d rows traced with the recorded releases the recording is equal to the trace in %d, the "+
		"family in %d\n", r.Traced, r.TracedEqual, r.FamilyEqual)
	sort.SliceStable(differ, func(i, k int) bool { return math.Abs(differ[i].Off()) > math.Abs(differ[k].Off()) })
	for _, row := range differ {
		fmt.Fprintf(w, "%+8.3f %% %s: %d recorded, %d by hand, %d in a trace of torch %s\n", 100*row.Off(), row.ID,
			row.Shown, row.ByHand, row.Truth.AllocatedBytes, cmp.Or(row.Versions["torch"], "unknown"))
	}
	for _, why := range slices.Sorted(maps.Keys(refused)) {
		fmt.Fprintf(w, "%d rows without: %s\n", refused[why], why)
	}
}

// Broken says which promises do not hold: nine in ten are equal, and all within 1 %.
func (r *Recorded) Broken() []string {
	var n recordedTally
	var out []string
	for i := range r.Rows {
		row := &r.Rows[i]
		n.add(row)
		if r.Compiled {
			if row.Refused == "" && math.Abs(row.OffTrace()) > compiledBand {
				out = append(out, fmt.Sprintf("%s: the recording is %+.2f %% off its trace", row.ID, 100*row.OffTrace()))
			}
			continue
		}
		if row.Refused == "" && math.Abs(row.Off()) > allocatedBand {
			out = append(out, fmt.Sprintf("%s: the recording is %+.2f %% off its family", row.ID, 100*row.Off()))
		}
	}
	if !r.Compiled && float64(n.equal) < 0.9*float64(n.compared) {
		out = append(out, fmt.Sprintf("%d of %d recordings are equal to their family only", n.equal, n.compared))
	}
	return out
}
