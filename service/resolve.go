package service

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// wholeCatalog in a job's list of GPUs stands for every card of the catalog.
const wholeCatalog = "*"

// maxSuggestions bounds the unknown names of one job that are compared with the
// whole catalog: a job may hold hundreds.
const maxSuggestions = 16

// resolved is a job with its names looked up.
type resolved struct {
	// catalog is where they were looked up: another may be current when the answer is ready.
	catalog *catalog.Catalog
	input   estimator.Input
	// notes say how names were read that could have meant something else.
	notes []estimator.Note
	// unknown holds the names that nothing has.
	unknown invalid.List
	// found is the model where the catalog does not have it.
	found *FoundModel
}

// resolve looks up every name of a job, and notes all that are unknown.
func resolve(c *catalog.Catalog, job estimator.Job) (*resolved, error) {
	r := &resolved{catalog: c, input: estimator.Input{Job: job}}
	r.noteReserve(job.ReserveBytes)
	if err := r.resolveModel(); err != nil {
		return nil, err
	}
	r.input.Job = defaults.Filled(r.input.Job) // with the name that the catalog has for the model
	return r, r.resolveGPUs()
}

func (r *resolved) resolveModel() error {
	name := r.input.Job.Model.Preset
	if name == "" {
		return r.resolveRecorded()
	}
	m, err := r.catalog.Model(name)
	if unknown, ok := errors.AsType[*catalog.UnknownError](err); ok {
		detail := unknown.Error()
		if _, pipeline := (pipelines.Pipeline{}).Completed(name); pipeline {
			detail = fmt.Sprintf("%.100q is a pipeline of diffusers and no single model: it is named in "+
				"model.diffusion.preset (--pipeline)", name)
		}
		r.unknown.Add("/model/preset", "unknown_model", "%s", detail)
		return nil
	}
	if err != nil {
		return unreadable(err)
	}
	r.input.Preset = &m.Preset
	r.input.Job.Model.Preset = m.ID
	if note := m.AliasNote(name); note != "" {
		r.notes = append(r.notes,
			estimator.Note{Code: "model-name", Text: fmt.Sprintf("%q is read as %s. %s", name, m.ID, note)})
	}
	return nil
}

func (r *resolved) resolveGPUs() error {
	all := false
	suggestions := maxSuggestions
	for i, ref := range r.input.Job.GPUs {
		pointer := fmt.Sprintf("/gpus/%d", i)
		switch {
		case ref.Name == "" && ref.MemoryBytes == 0:
			r.unknown.Add(pointer, "required", `a GPU is a name, "*" or {"name", "memory_bytes", "free_bytes", "price_per_hour"}`)
		case ref.Name == wholeCatalog && ref.MemoryBytes == 0 && ref.FreeBytes == nil && ref.PricePerHour != nil:
			r.unknown.Add(pointer+"/price_per_hour", "unsupported", `a price is of one card, and "*" is all of the catalog: `+
				`name each card that has one, such as {"name": "rtx-4090", "price_per_hour": 0.44}`)
		case ref.Name == wholeCatalog && ref.MemoryBytes == 0 && ref.FreeBytes == nil:
			cards, err := r.catalog.EstimatorGPUs()
			if err != nil {
				return unreadable(err)
			}
			if !all {
				r.addCatalog(cards)
			}
			all = true
		case r.priceAgain(&ref, pointer):
		default:
			if ref.MemoryBytes > 0 && ref.MemoryBytes < leastMemory {
				r.unknown.Add(pointer+"/memory_bytes", "out_of_range", "%d was given, in bytes, and no card has so few: 24 GB, "+
					"as nvidia-smi shows 24,576 MiB, are 25769803776", ref.MemoryBytes)
				continue
			}
			g, err := r.catalog.GPU(ref.Name)
			unknown, isUnknown := errors.AsType[*catalog.UnknownError](err)
			switch {
			case isUnknown && ref.MemoryBytes > 0:
				g = catalog.WithMemory(ref.Name, ref.MemoryBytes, nil)
			case isUnknown:
				if suggestions--; suggestions < 0 {
					unknown.Nearest = nil
				}
				r.unknown.Add(pointer, "unknown_gpu", "%s", unknown.Error())
				continue
			case err != nil:
				return unreadable(err)
			case ref.MemoryBytes > 0:
				g = catalog.WithMemory(ref.Name, ref.MemoryBytes, g)
			default:
				r.noteGPU(ref.Name, g)
			}
			card := g.ForEstimator()
			if ref.PricePerHour != nil {
				card.PricePerHour = *ref.PricePerHour
			}
			if ref.FreeBytes != nil {
				if *ref.FreeBytes > 0 && *ref.FreeBytes < leastMemory || card.MemoryBytes > 0 &&
					*ref.FreeBytes > card.MemoryBytes {
					r.unknown.Add(pointer+"/free_bytes", "out_of_range", "%d was given, in bytes; accepted: 0, or from 1048576 to "+
						"the memory of the card (%d)", *ref.FreeBytes, card.MemoryBytes)
					continue
				}
				card.HeldBytes = max(card.UsableBytes-*ref.FreeBytes, 0)
			}
			r.input.GPUs = append(r.input.GPUs, card)
		}
	}
	return nil
}

// noteReserve asks about a reserve_bytes that nothing on a card holds so little as: a unit may be meant.
func (r *resolved) noteReserve(bytes int64) {
	if bytes > 0 && bytes < leastMemory {
		r.notes = append(r.notes, estimator.Note{Code: "reserve", Text: fmt.Sprintf("reserve_bytes is %d, in bytes: "+
			"whatever holds memory on a card holds more. Is a unit meant? 800 MiB, as a desktop may hold, are 838860800",
			bytes)})
	}
}

// leastMemory is less than any card has: a figure below it is in gigabytes or mebibytes.
const leastMemory = 1 << 20

// noteGPU says what the user should know of a card that was named.
func (r *resolved) noteGPU(name string, g *catalog.GPU) {
	if note := g.AliasNote(name); note != "" {
		r.notes = append(r.notes,
			estimator.Note{Code: "gpu-name", Text: fmt.Sprintf("%q is read as %s. %s", name, g.ID, note)})
	}
	switch g.UsableBasis {
	case catalog.Inferred, catalog.Nominal:
		r.notes = append(r.notes, estimator.Note{Code: "usable-memory-inferred",
			Text: fmt.Sprintf("The usable memory of %s is inferred: %s.", g.ID, g.UsableNote)})
	case catalog.Unknown:
		r.notes = append(r.notes, estimator.Note{Code: "usable-memory-unknown",
			Text: fmt.Sprintf("The usable memory of %s is unknown: %s.", g.ID, g.UsableNote)})
	}
}

// digest identifies a resolved job. The zero digest identifies nothing.
type digest [sha256.Size]byte

// digest covers everything that decides the answer: the job with canonical names,
// the cards, the calibration, and the catalog that the preset is from. Two spellings of a name share an
// answer.
func (r *resolved) digest(extra ...int64) digest {
	job := r.input.Job
	job.GPUs = nil // their names are below
	canonical, err := json.Marshal(job)
	if err != nil { // a number that JSON cannot hold; the estimator will refuse it
		return digest{}
	}
	buf := make([]byte, 0, 256+len(canonical)+128*len(r.input.GPUs))
	text := func(b string) {
		buf = binary.AppendUvarint(buf, uint64(len(b)))
		buf = append(buf, b...)
	}
	text(r.catalog.Revision())
	if c := r.input.Calibration; c != nil {
		text(c.ID)
	} else {
		text(estimator.Calibration)
	}
	buf = binary.AppendUvarint(buf, uint64(len(canonical)))
	buf = append(buf, canonical...)
	for _, n := range extra {
		buf = binary.AppendVarint(buf, n)
	}
	for i := range r.input.GPUs {
		g := &r.input.GPUs[i]
		text(g.ID)
		text(g.Vendor)
		text(string(g.Line))
		for _, n := range []int64{g.MemoryBytes, g.UsableBytes, int64(g.ComputeCapability), int64(g.Multiprocessors),
			single(g), g.HeldBytes} {
			buf = binary.AppendVarint(buf, n)
		}
		for _, f := range []float64{g.PeakFLOPS, g.FP32FLOPS, g.BandwidthBytesPerSecond, g.LinkBytesPerSecond,
			g.PricePerHour} {
			buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(f))
		}
	}
	return sha256.Sum256(buf)
}

func single(g *estimator.GPU) int64 {
	if g.Single {
		return 1
	}
	return 0
}

// Names adds the names of a job that nothing has to what its reader found wrong with it, so that a user learns of all
// of it at once. pointer is where the job lies in its document. An error that is not about the job stays as it is, and
// so does that of a document that could not be read to its end.
func (s *Service) Names(ctx context.Context, err error, job estimator.Job, pointer string) error {
	wrong, ok := errors.AsType[*invalid.Error](err)
	if !ok || slices.ContainsFunc(wrong.Fields, func(f invalid.Field) bool {
		return f.Code == jobdoc.CodeMalformed || f.Code == jobdoc.CodeTooDeep
	}) {
		return err
	}
	r, resolveErr := s.resolve(ctx, s.current(), job)
	if resolveErr != nil {
		return err
	}
	unknown, ok := errors.AsType[*invalid.Error](r.unknown.Err())
	if !ok {
		return err
	}
	var all invalid.List
	all.Append(wrong.Fields...)
	for _, f := range unknown.Fields {
		f.Pointer = pointer + f.Pointer
		if !slices.ContainsFunc(wrong.Fields, func(w invalid.Field) bool {
			return w.Pointer == f.Pointer || strings.HasPrefix(w.Pointer, f.Pointer+"/")
		}) {
			all.Append(f)
		}
	}
	return all.Err()
}
