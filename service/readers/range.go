package readers

import (
	"encoding/json"

	"github.com/vramplan/vramplan/service/readers/draft"
)

// Reading is a job document that the same words may mean.
type Reading struct {
	Document json.RawMessage
	// Why says on what it depends.
	Why string
}

// Range is what a job may be, where its words leave something open that has bounds: it is denied only if it fits in
// none of Least, and passed only if it fits in all of Most. What has no bounds is a doubt of the job.
type Range struct{ Least, Most []Reading }

// Range is nothing where the job was not read, or has no lower bound; the latter is among its doubts.
func (j Job) Range() Range {
	if j.draft == nil {
		return Range{}
	}
	if j.draft.Verbatim != nil {
		return Range{} // a declaration leaves nothing open
	}
	r := Range{Most: []Reading{{Document: j.Document}}}
	for i, d := range append([]*draft.Draft{j.draft}, j.draft.Ways...) {
		least := d.Least()
		if least == nil || len(d.Refusals) > 0 || len(d.Questions) > 0 {
			return Range{Most: r.Most} // which is among its doubts
		}
		why := d.LeastWhy()
		if i > 0 {
			why = j.draft.Why + ", and it may be so small that it fits"
			r.Most = append(r.Most, Reading{d.Document(), j.draft.Why})
		}
		r.Least = append(r.Least, Reading{least, why})
		if older := d.Older(); older != nil {
			r.Least = append(r.Least, Reading{older, "no file says which transformers runs, and it fits with " +
				draft.OlderTransformers})
		}
	}
	return r
}

// MayBeDenied reports whether every word of the job is understood, so that one that does not fit is denied.
func (j Job) MayBeDenied() bool { return len(j.Doubts) == 0 }

// MayBePassed reports whether nothing is in doubt that may make the job larger than it was read.
func (j Job) MayBePassed() bool {
	for _, d := range j.Doubts {
		if d.Enlarges {
			return false
		}
	}
	return true
}
