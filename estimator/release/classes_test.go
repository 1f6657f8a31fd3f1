package release

import "testing"

// TestLacksHead: heads that no release has, that a later one has, and that all have; a release between is not judged.
func TestLacksHead(t *testing.T) {
	for _, c := range []struct {
		release    Version
		kind, head string
		from       string
		lacks      bool
	}{
		{release: Version{5, 23}, kind: "lfm2", head: "ForSequenceClassification", lacks: true},
		{release: Version{5, 23}, kind: "llama", head: "ForSequenceClassification", from: "4.57.6"},
		{release: Version{4, 40}, kind: "llama", head: "ForSequenceClassification", from: "4.57.6"},
		{release: Version{4, 57}, kind: "olmo2", head: "ForSequenceClassification", from: "5.10.0", lacks: true},
		{release: Version{5, 0}, kind: "olmo2", head: "ForSequenceClassification", from: "5.10.0", lacks: true},
		{release: Version{5, 7}, kind: "olmo2", head: "ForSequenceClassification", from: "5.10.0"},
		{release: Version{5, 10}, kind: "olmo2", head: "ForSequenceClassification", from: "5.10.0"},
		{release: Version{4, 57}, kind: "nezha", head: "ForMaskedLM", from: "4.57.6"},
		{release: Version{5, 0}, kind: "nezha", head: "ForMaskedLM", from: "4.57.6", lacks: true},
	} {
		if from, lacks := LacksHead(c.release, c.kind, c.head); from != c.from || lacks != c.lacks {
			t.Errorf("%+v: from %q, lacks %v", c, from, lacks)
		}
	}
}
