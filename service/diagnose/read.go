package diagnose

import (
	"strings"
)

// Text is what was read of a text.
type Text struct {
	Messages  []Message `json:"messages"`
	Summaries []Summary `json:"memory_summaries,omitempty"`
	Cards     []Card    `json:"cards,omitempty"`
	// Cut says that the text was longer than [MaxTextBytes]: its end was read.
	Cut bool `json:"cut,omitempty"`

	lines []line
}

// Read finds the failures and tables in a text. Nothing in the text is an error: what is not understood is not found.
func Read(text string) *Text {
	t := &Text{Messages: []Message{}}
	if looksLikeSnapshot([]byte(text[:min(len(text), snapshotHead)])) {
		if lines := snapshotText(strings.NewReader(text)); lines != "" {
			text = lines
		}
	}
	if len(text) > MaxTextBytes {
		text, t.Cut = text[len(text)-MaxTextBytes:], true
	}
	t.lines = lines(strings.ToValidUTF8(text, ""))
	t.Messages = append(t.Messages, messages(t.lines)...)
	t.Summaries = summaries(t.lines)
	t.Cards = cards(t.lines)
	return t
}

// Kind is that of the text's first failure, or of the table that it holds.
func (t *Text) Kind() Kind {
	switch {
	case len(t.Messages) > 0:
		return t.Messages[0].Kind
	case len(t.Summaries) > 0:
		return KindSummary
	case len(t.Cards) > 0:
		return KindSMI
	}
	return KindUnrecognised
}

// Explain puts every failure of the text down to something. models are tensors of models of a catalog, for texts
// without a job. There is at least one cause, that of nothing where the text has no failure.
func (t *Text) Explain(job Job, models []Candidate) []Cause {
	var causes []Cause
	for i := range t.Messages {
		causes = append(causes, t.Messages[i].cause(t.lines, &job, models))
	}
	if len(causes) > 0 {
		return causes
	}
	for i := range t.Summaries {
		causes = append(causes, t.Summaries[i].cause())
	}
	if len(causes) > 0 {
		return causes
	}
	c := Cause{Class: ClassUnknown, Certainty: Untold}
	if len(t.Cards) > 0 {
		c = cardsCause(t.Cards)
	}
	c.advise()
	return []Cause{c}
}

// cause is what a memory_summary says. Its sizes are MiB, whatever they are called.
func (s *Summary) cause() Cause {
	c := Cause{Class: ClassUnknown, Certainty: Untold}
	if s.AllocatedBytes != nil && s.ReservedBytes != nil {
		a, r := *s.AllocatedBytes, *s.ReservedBytes
		c.Evidence = append(c.Evidence, itoa(r/mib)+" MiB are reserved and "+itoa(a/mib)+" MiB allocated")
		// what was allocated before is not told: between steps little is, and that is no fragmentation
		if s.AllocatedPeakBytes == nil {
			c.Notes = append(c.Notes, "The peak is not in it, so that nothing follows from what is reserved and "+
				"not allocated now.")
		} else if peak := *s.AllocatedPeakBytes; r-peak >= gib && float64(r-peak) >= fragmentedShare*float64(r) {
			c.Class, c.Certainty = ClassFragmentation, ClassOnly
			c.Evidence = append(c.Evidence, "at no moment more than "+itoa(peak/mib)+
				" MiB were allocated: the rest lies in pieces")
		}
	}
	if c.Class == ClassUnknown && s.OOMs != nil && *s.OOMs == 0 {
		c.Class, c.Certainty = ClassNone, Exact
	}
	c.advise()
	return c
}

// cardsCause is what nvidia-smi says: no failure, but what is free.
func cardsCause(list []Card) Cause {
	c := Cause{Class: ClassNone, Certainty: Exact}
	for i := range list {
		k := &list[i]
		var words []string
		if k.Index != nil {
			words = append(words, "card "+itoa(int64(*k.Index)))
		} else {
			words = append(words, "a card")
		}
		if k.Name != "" {
			words = append(words, "("+k.Name+")")
		}
		if k.FreeBytes != nil {
			words = append(words, "has "+itoa(*k.FreeBytes/mib)+" MiB free")
		} else if k.TotalBytes != nil && k.UsedBytes != nil {
			words = append(words, "uses "+itoa(*k.UsedBytes/mib)+" of "+itoa(*k.TotalBytes/mib)+" MiB")
		}
		if k.DriverBytes != nil && *k.DriverBytes > 0 {
			words = append(words, "and "+itoa(*k.DriverBytes/mib)+" MiB are kept by the driver")
		}
		if len(words) == 1 && len(k.Processes) > 0 {
			words = []string{"these processes hold cards:"}
		}
		c.Evidence = append(c.Evidence, strings.Join(words, " "))
		for _, p := range k.Processes {
			c.Evidence = append(c.Evidence, "process "+itoa(int64(p.PID))+" holds "+itoa(p.Bytes/mib)+" MiB")
		}
	}
	return c
}
