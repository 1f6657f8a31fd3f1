package finish

import "github.com/vramplan/vramplan/service/readers/draft"

// doubt collects all that stands between the job and a denial: what the reader assumed or left unread, and everything
// around the command.
func (r *closing) doubt() {
	all := &r.Out.Doubts
	for _, v := range r.Out.Ignored {
		all.Add(draft.NotUnderstood(v.Origin.At.File, v.Origin.At.Line, v.Origin.Key))
	}
	file := r.At.File
	if file == "" && r.File != "" {
		file = r.Files.Shown(r.File)
	}
	for _, a := range r.Out.Assumptions {
		if a.Tainted || a.Settled {
			continue // the word itself is in doubt, or it makes no difference
		}
		all.Add(draft.Doubt{File: file, Why: a.Say, Enlarges: a.Uncertain})
	}
	if r.Out.Command == nil {
		all.Add(draft.Doubt{File: file, Why: "no command is known that starts it"})
	} else {
		for _, d := range r.Command.Doubts {
			all.Add(d)
		}
		r.doubtWords()
	}
	r.doubtSettings()
	if r.Displaced != nil {
		for _, pair := range *r.Displaced {
			all.Add(draft.Doubt{File: r.At.File, Line: r.At.Line, Word: pair[0],
				Why: "is not there, and " + pair[1] + " is read in its place"})
		}
	}
	for _, d := range r.Out.Strange {
		all.Add(d)
	}
	if name := r.Out.Text("/model/preset"); r.Files.Shadowed(name) {
		all.Add(draft.Doubt{File: file, Line: r.At.Line, Word: name, Why: "is a directory too, whose model would be taken"})
	}
	r.Out.Release = r.Release("transformers")
	if r.Out.Least() == nil {
		all.Add(draft.Doubt{File: file, Why: "what it needs at the least cannot be told"})
	}
}
