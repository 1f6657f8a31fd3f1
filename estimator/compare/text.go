package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator"
)

// namedComponents is how many components a sentence names.
const namedComponents = 3

// namedFollows is how many of the fields that follow a change a sentence names.
const namedFollows = 4

// sentence says what a cause does: "micro_batch 16 → 8: -7358.0 MiB (logits and loss -4716.0 MiB, …)".
func sentence(c Cause, before, after estimator.Peak) string {
	var b strings.Builder
	for i, x := range c.Changes {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(x.String())
	}
	for i, x := range c.Follows[:min(namedFollows, len(c.Follows))] {
		b.WriteString(map[bool]string{true: " (with it ", false: ", "}[i == 0])
		b.WriteString(x.String())
	}
	switch more := len(c.Follows) - namedFollows; {
	case more > 0:
		fmt.Fprintf(&b, ", and %d more)", more)
	case len(c.Follows) > 0:
		b.WriteString(")")
	}
	fmt.Fprintf(&b, ": %s", signed(c.DifferenceBytes))
	for i, x := range c.Components[:min(namedComponents, len(c.Components))] {
		b.WriteString(map[bool]string{true: " (", false: ", "}[i == 0])
		fmt.Fprintf(&b, "%s %s", strings.ReplaceAll(x.Name, "_", " "), signed(x.DifferenceBytes))
	}
	if len(c.Components) > 0 {
		b.WriteString(")")
	}
	if c.PeakMoves {
		fmt.Fprintf(&b, "; the peak moves from %s to %s", moment(before), moment(after))
	}
	if c.AloneBytes != nil && *c.AloneBytes != c.DifferenceBytes {
		fmt.Fprintf(&b, "; by itself %s", signed(*c.AloneBytes))
	}
	return b.String() + "."
}

// String is the change in words: "training.micro_batch 16 → 8".
func (x Change) String() string {
	name := strings.ReplaceAll(strings.TrimPrefix(x.Pointer, "/"), "/", ".")
	return fmt.Sprintf("%s %s → %s", strings.TrimPrefix(name, "training."), word(x.A), word(x.B))
}

// longestValue is where a value in a sentence is cut.
const longestValue = 60

// word is a value as a person would write it.
func word(v any) string {
	if v == nil {
		return "not given"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	text := strings.Trim(string(b), `"`)
	var settings struct {
		Name, Kind, Mode, Implementation string
	}
	if d := json.NewDecoder(bytes.NewReader(b)); b[0] == '{' {
		// {"name": "adamw", "implementation": "fused"} reads better as "adamw fused".
		if d.DisallowUnknownFields(); d.Decode(&settings) == nil {
			text = strings.TrimSpace(settings.Name + settings.Kind + settings.Mode + " " + settings.Implementation)
		}
	}
	if r := []rune(text); len(r) > longestValue {
		text = string(r[:longestValue]) + "…"
	}
	return text
}

// moment is where a peak is.
func moment(p estimator.Peak) string {
	if p.Where == "" {
		return p.Phase
	}
	return p.Phase + " (" + p.Where + ")"
}

func signed(n int64) string {
	if n > 0 {
		return "+" + estimator.Bytes(n).String()
	}
	return estimator.Bytes(n).String()
}

// explain writes the notes; same says that both documents were taken for the same job.
func (c *Comparison) explain(same bool) {
	note := func(code, format string, args ...any) {
		c.Notes = append(c.Notes, estimator.Note{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	switch {
	case same && len(c.WithoutEffect) == 0:
		note("same-job", "The two documents describe the same job.")
	case same:
		note("same-job", "The two documents describe the same job: what one says, the other is taken for.")
	case len(c.Causes) == 0:
		note("no-difference", "The jobs differ, but not in memory.")
	case len(c.Causes) > 1:
		note("order", "Causes add up: each says what its change moves on top of those before it, the model first, "+
			"then the training fields, then the card. By itself a change can weigh otherwise.")
	}
	if c.A.Peak.Phase != c.B.Peak.Phase {
		note("peak-moves", "The largest moment of the first job is in %s, of the second in %s, so components are "+
			"compared at different moments.", moment(c.A.Peak), moment(c.B.Peak))
	}
}
