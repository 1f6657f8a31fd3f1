package main

import (
	"fmt"
	"io"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
)

// caution is the line for standard error where a job is let through that may fail.
func caution(j judgement) string {
	if j.override != "" {
		return fmt.Sprintf("overridden: the job does not fit on %s and is let through (%s)", screen.Plain(j.best.GPU),
			screen.Plain(j.override))
	}
	if j.gpus > 0 {
		return fmt.Sprintf("the job does not fit on one %s, but asks for %d GPUs, of which its description does not "+
			"speak: it is let through",
			screen.Plain(j.best.GPU), j.gpus)
	}
	switch j.best.Verdict {
	case estimator.Tight:
		return fmt.Sprintf("tight: the job probably fits on %s, but may need up to %s of its %s",
			screen.Plain(j.best.GPU), screen.Size(j.result.Peak.HighBytes), screen.Size(j.best.UsableBytes))
	case estimator.Unlikely:
		return fmt.Sprintf("unlikely: the job probably does not fit on %s: it needs about %s of %s",
			screen.Plain(j.best.GPU), screen.Size(j.result.Peak.DeviceBytes), screen.Size(j.best.UsableBytes))
	case estimator.Unknown:
		return fmt.Sprintf("no verdict: nobody knows what %s leaves to a process", screen.Plain(j.best.GPU))
	case estimator.Fits:
		for _, g := range j.result.GPUs {
			if g.Verdict != estimator.Fits {
				return fmt.Sprintf("fits on %s, but not surely on %s (%s)", screen.Plain(j.best.GPU),
					screen.Plain(g.GPU),
					screen.Words(string(g.Verdict)))
			}
		}
	}
	return ""
}

// writeJudgement prints the estimate with the field "check" added to it.
func writeJudgement(w io.Writer, j judgement) error {
	decided := struct {
		Verdict     estimator.Verdict `json:"verdict"`
		GPU         string            `json:"gpu"`
		ExitCode    int               `json:"exit_code"`
		Recommended *planner.Choice   `json:"recommended,omitempty"`
		Options     []planner.Option  `json:"options,omitempty"`
		Override    string            `json:"override,omitempty"`
	}{Verdict: j.best.Verdict, GPU: j.best.GPU, ExitCode: j.code, Override: j.override}
	decided.Recommended = j.pair
	if j.plan != nil {
		decided.Recommended, decided.Options = j.plan.Recommended, j.plan.Options
	}
	line, err := sjson.SetBytes(j.estimate, "check", decided)
	if err != nil {
		return err
	}
	return jsonLines{}.next(w, answer{doc: j.doc, body: line})
}

// maxAdvice keeps the message to one screen.
const maxAdvice = 4

// writeMessage says in one screen what was decided, on which numbers, and what
// to change. label stands before the first line.
func writeMessage(w io.Writer, s screen.Style, label string, j judgement) {
	p := j.result.Peak
	training := gjson.GetBytes(j.doc.text, "training")
	first := fmt.Sprintf("%s%s: %s", label, s.Verdict(j.best.Verdict), screen.Plain(j.result.Model.Name))
	if n := training.Get("micro_batch"); n.Exists() {
		first += fmt.Sprintf(", micro-batch %d", n.Int())
		if tokens := training.Get("sequence_length"); tokens.Exists() {
			first += fmt.Sprintf(" × %d tokens", tokens.Int())
		}
	}
	screen.WriteHanging(w, "", "  ", first+", on "+screen.Plain(j.best.GPU))
	fields := [][2]string{
		{"needs", fmt.Sprintf("%s, between %s and %s", screen.Size(p.DeviceBytes), screen.Size(p.LowBytes),
			screen.Size(p.HighBytes))},
		{"peak", "in " + screen.Plain(peakMoment(p))},
	}
	for _, card := range j.result.GPUs {
		words := roomWords(card)
		if len(j.result.GPUs) > 1 {
			words = s.Verdict(card.Verdict) + ", " + words
		}
		fields = append(fields, [2]string{screen.Plain(card.GPU), words})
	}
	if largest := largestComponents(j.result.Components); largest != "" {
		fields = append(fields, [2]string{"largest", largest})
	}
	screen.WriteFields(w, fields)
	if j.pair != nil {
		fmt.Fprintf(w, "what to change: a micro-batch of %d with %d accumulation steps fits\n", j.pair.MicroBatch,
			j.pair.GradientAccumulation)
	}
	if j.plan == nil {
		return
	}

	shown := 0
	for _, o := range j.plan.Options {
		if o.Verdict != estimator.Fits || shown == maxAdvice {
			continue
		}
		if shown++; shown == 1 {
			fmt.Fprintln(w, "what to change:")
		}
		screen.WriteHanging(w, fmt.Sprintf("  %d. ", shown), "     ", fmt.Sprintf("%s: %s, %.2f× the time%s",
			screen.Plain(o.Title),
			screen.Size(o.DeviceBytes), o.RelativeStepTime.Expected, effectOf(o)))
		if settings := settingsOf(o); settings != "" {
			screen.WriteHanging(w, "     ", "       ", settings)
		}
	}
	switch {
	case shown > 0:
	case len(j.plan.SmallestGPUs) > 0:
		screen.WriteHanging(w, "", "  ",
			"what to change: no setting makes it fit; it fits on "+screen.Plain(j.plan.SmallestGPUs[0]))
	default:
		fmt.Fprintln(w, "what to change: no setting of this job makes it fit")
	}
}

func settingsOf(o planner.Option) string {
	text := ""
	for i, setting := range o.Settings {
		if i > 0 {
			text += ", "
		}
		text += screen.Plain(setting)
	}
	return text
}

func effectOf(o planner.Option) string {
	if o.TrainingEffect == "" || o.TrainingEffect == "none" {
		return ""
	}
	return "; " + screen.Plain(o.TrainingEffect)
}

// largestComponents names the three that hold most.
func largestComponents(components []estimator.Component) string {
	sorted := append([]estimator.Component(nil), components...)
	sortByBytes(sorted)
	text := ""
	for i, c := range sorted {
		if i == 3 || c.Bytes == 0 {
			break
		}
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %s", screen.Words(c.Name), screen.Size(c.Bytes))
	}
	return text
}
