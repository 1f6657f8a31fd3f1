package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/service"
)

// showCalibration prints everything of one calibration.
func showCalibration(w io.Writer, c *service.Calibration, form grids) error {
	o := c.Observations
	fmt.Fprintf(w, "Fitted to %d of %d observations (%d quarantined, %d that this estimator or catalog does not "+
		"answer), for the estimator %s with %s.\n",
		o.Used, o.Read, o.Quarantined, o.Unanswered, screen.Plain(c.Estimator), screen.Plain(c.Base))
	g := screen.NewGrid("left", "right", "right", "right", "right", "right", "left")
	g.Add("group", "jobs", "set aside", "context", "workspace", "allocator", "widths at 95 %, below and above")
	for i := range c.Groups {
		k := &c.Groups[i]
		g.Add(screen.Plain(k.Key.String()), strconv.Itoa(k.Jobs), strconv.Itoa(k.Outliers), signed(k.ContextBytes),
			signed(k.WorkspaceBytes),
			fmt.Sprintf("%+.1f %%", 100*k.AllocatorShare), timesWords(k))
	}
	fmt.Fprintln(w)
	form.write(w, g)
	if h := c.HeldOut; h.All.Jobs > 0 {
		left := "one source in turn"
		if h.By != "source" {
			left = "a fifth of the jobs in turn"
		}
		fmt.Fprintf(w, "\nOn runs that it did not see (%s left out of the fit), at %g %%:\n\n", left, 100*h.Confidence)
		g := screen.NewGrid("left", "right", "right", "right", "right", "right", "right", "right")
		g.Add("group", "jobs", "within bounds, built in", "fitted", "median error, built in", "fitted",
			"median width, built in", "fitted")
		for _, k := range append(h.Groups, h.All) {
			g.Add(screen.Plain(k.Key.String()), strconv.Itoa(k.Jobs), share(k.Builtin.Within, k.Jobs),
				share(k.Fitted.Within, k.Jobs),
				share(k.Builtin.Error, k.Jobs), share(k.Fitted.Error, k.Jobs), screen.Size(k.Builtin.WidthBytes),
				screen.Size(k.Fitted.WidthBytes))
		}
		form.write(w, g)
	}
	if len(c.Skipped) > 0 {
		fmt.Fprint(w, "\nNot fitted, or not in full:\n\n")
		g := screen.NewGrid("left", "right", "left")
		g.Add("group", "jobs", "why")
		for _, k := range c.Skipped {
			g.Add(screen.Plain(k.Key.String()), strconv.Itoa(k.Jobs), screen.Plain(k.Reason))
		}
		form.write(w, g)
	}
	return nil
}

// timesWords says how wide a group's bounds are.
func timesWords(g *calibration.Group) string {
	for _, b := range g.Bounds {
		if b.Confidence == 0.95 {
			return fmt.Sprintf("%.2f×, %.2f×", b.Below, b.Above)
		}
	}
	return "built in"
}

func signed(bytes int64) string {
	switch {
	case bytes < 0:
		return "−" + screen.Size(-bytes)
	case bytes == 0:
		return "0"
	}
	return "+" + screen.Size(bytes)
}

// share is a share of so many; a dash of none.
func share(s float64, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*s)
}
