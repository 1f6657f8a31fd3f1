package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/service/diagnose"
)

var momentWords = map[diagnose.Moment]string{
	diagnose.AtPeak:    "at the largest moment of the history",
	diagnose.AtFailure: "when the last request failed",
	diagnose.AtEnd:     "when the snapshot was taken, which has no history",
}

// heldBar is how wide the largest group is drawn.
const heldBar = 16

// writeHeld draws what a snapshot held, and lists where the run departs from what was predicted.
func writeHeld(w io.Writer, h *diagnose.Held, say func(first, others, text string),
	list func(title string, lines []string)) {
	line := fmt.Sprintf("Held %s: %s", momentWords[h.Moment], screen.Size(h.AllocatedBytes))
	if h.RequestedBytes > 0 {
		line += fmt.Sprintf(", and %s were asked for", screen.Size(h.RequestedBytes))
	}
	if h.PredictedBytes != nil {
		line += fmt.Sprintf("; the replay has %s at its peak", screen.Size(*h.PredictedBytes))
	}
	say("", "  ", line)
	most := int64(1)
	if len(h.Groups) > 0 {
		most = h.Groups[0].Bytes * h.Groups[0].Count
	}
	for _, g := range h.Groups {
		all := g.Bytes * g.Count
		what := strings.Join(g.Names, " or ")
		switch {
		case what != "":
		case h.PredictedBytes != nil:
			what = "no tensor of the replay"
		}
		if g.At != "" {
			what = strings.TrimPrefix(what+", at "+g.At, ", ")
		}
		drawn := strings.Repeat("█", max(int(all*heldBar/most), 1))
		say(fmt.Sprintf("%-*s %10s  ", heldBar, drawn, screen.Size(all)), strings.Repeat(" ", heldBar+13),
			screen.Plain(fmt.Sprintf("%d × %s: %s", g.Count, screen.Size(g.Bytes), what)))
	}
	if h.RestBytes > 0 {
		say(fmt.Sprintf("%-*s %10s  ", heldBar, "", screen.Size(h.RestBytes)), strings.Repeat(" ", heldBar+13),
			"all that is smaller")
	}
	var departs []string
	for _, d := range h.Departures {
		departs = append(departs, fmt.Sprintf("%s: %s", screen.Size(d.Bytes*d.Count), d.Text))
	}
	list("Held beside what was predicted", departs)
	if h.PredictedBytes != nil && len(departs) == 0 && h.Moment == diagnose.AtPeak {
		fmt.Fprintln(w, "\nNothing is held beside what was predicted.")
	}
}
