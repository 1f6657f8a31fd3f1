package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/model"
)

// Calibrated says what a calibration fitted to the published runs is worth on those that it did not see.
type Calibrated struct {
	Groups []calibration.Group
	// BySource leaves out what one publication measured, BySeries one model and recipe of it.
	BySource, BySeries calibration.HeldOut
}

// Calibrate fits a calibration to published runs.
func Calibrate(list []Observation, presets map[string]*model.Preset) (*Calibrated, error) {
	var bySource, bySeries []calibration.Row
	for _, o := range list {
		row, err := rowOf(o, presets)
		if err != nil {
			return nil, err
		}
		if row == nil {
			continue
		}
		row.Source = o.Source
		bySource = append(bySource, *row)
		row.Source = o.Series
		bySeries = append(bySeries, *row)
	}
	groups, _ := calibration.Fit(bySource)
	return &Calibrated{Groups: groups, BySource: calibration.HoldOut(bySource),
		BySeries: calibration.HoldOut(bySeries)}, nil
}

// rowOf is an observation as a fit takes it; nil where it has nothing to fit.
func rowOf(o Observation, presets map[string]*model.Preset) (*calibration.Row, error) {
	g := cards[o.GPU]
	g.ID = o.GPU
	res, err := estimator.Estimate(estimator.Input{Job: o.Job, GPUs: []estimator.GPU{g},
		Preset: presets[o.Job.Model.Preset]})
	if err != nil {
		return nil, nil // it is refused, which another table counts
	}
	job, err := json.Marshal(o.Job)
	if err != nil {
		return nil, err
	}
	m := o.Reading
	if m.DeviceBytes == 0 && m.OOMInBytes == 0 {
		return nil, nil
	}
	row := &calibration.Row{ID: o.ID, Job: string(job), Key: estimator.CalibrationKey(&o.Job, res.Model.Family, &g),
		Base: estimator.CalibrationBase(&res.Peak)}
	if row.Device = m.DeviceBytes; row.Device == 0 {
		row.AtLeast = m.OOMInBytes
	}
	return row, nil
}

// Print writes the tables of a calibration.
func (c *Calibrated) Print(w io.Writer) {
	fmt.Fprint(w, "| group | jobs | set aside | context | allocator | bounds at 95 %, in built-in widths "+
		"|\n|---|---|---|---|---|---|\n")
	for i := range c.Groups {
		g := &c.Groups[i]
		x := g.Correction(g.ReservedFromBytes, 0.95)
		fmt.Fprintf(w, "| %s | %d | %d | %+d MiB | %+.1f %% | %.2f below, %.2f above |\n", g.Key, g.Jobs, g.Outliers,
			g.ContextBytes>>20, 100*g.AllocatorShare, x.Below, x.Above)
	}
	fmt.Fprint(w, "\n| left out in turn | group | jobs | of them corrected | between the bounds, built in | fitted | "+
		"median error, built in | fitted | median width, built in | fitted "+
		"|\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, h := range []struct {
		what string
		calibration.HeldOut
	}{{"a publication", c.BySource}, {"a series", c.BySeries}} {
		for _, g := range append(h.Groups, h.All) {
			if g.Jobs == 0 {
				continue
			}
			fmt.Fprintf(w, "| %s | %s | %d | %d | %.0f %% | %.0f %% | %.1f %% | %.1f %% | %s | %s |\n", h.what, g.Key,
				g.Jobs, g.Corrected, 100*g.Builtin.Within, 100*g.Fitted.Within,
				100*g.Builtin.Error, 100*g.Fitted.Error, estimator.Bytes(g.Builtin.WidthBytes),
				estimator.Bytes(g.Fitted.WidthBytes))
		}
	}
	a := c.BySeries.All
	fmt.Fprintf(w, "\nOf %d runs that ran out of memory %d fit by the built-in bounds, and %d by the fitted ones.\n",
		a.Failed, a.Builtin.Contradicted, a.Fitted.Contradicted)
}

// Promises about a calibration of the published runs, with the series left out that it is held against: what of them
// has to lie between the bounds, in percent.
const calibratedCovered = 90

// Broken says which promises about it do not hold.
func (c *Calibrated) Broken() []string {
	var out []string
	a := c.BySeries.All
	if 100*a.Fitted.Within < calibratedCovered {
		out = append(out, fmt.Sprintf("calibrated: %.0f %% of the runs of a series that was left out lie between the "+
			"bounds, promised are %d %%", 100*a.Fitted.Within, calibratedCovered))
	}
	if a.Corrected == 0 {
		out = append(out, "calibrated: no job of a series that was left out is corrected")
	}
	if a.Fitted.Contradicted > 0 {
		out = append(out, fmt.Sprintf("calibrated: %d runs that ran out of memory fit by the fitted bounds",
			a.Fitted.Contradicted))
	}
	return out
}
