package readers

import (
	"encoding/json"
	"fmt"
	"sort"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// Answer is what was read: jobs in the order in which they run, and what could not be read of those that were refused.
type Answer struct {
	Jobs     []Job     `json:"jobs"`
	Refusals []Refusal `json:"refusals,omitempty"`
}

// Job is one training job.
type Job struct {
	// Document is the job document, without what is asked for.
	Document json.RawMessage `json:"document" swaggertype:"object"`
	// Reader is the tool whose words were read: axolotl, llama-factory, …
	Reader string `json:"reader"`
	// Command is where the job is started; nothing where only a configuration was given.
	Command *Place `json:"command,omitempty"`
	// Origins says for every field where it stands, by its pointer in the document.
	Origins map[string]Origin `json:"origins"`
	// Overridden are values that have no effect, because another place wins.
	Overridden []Overridden `json:"overridden,omitempty"`
	// Assumptions are what was taken to be so.
	Assumptions []Assumption `json:"assumptions,omitempty"`
	// Questions are what no file says, all at once.
	Questions []Question `json:"questions,omitempty"`
	// Ignored are words that do not change the memory, as far as vramplan knows.
	Ignored []Ignored `json:"ignored,omitempty"`
	// Doubts are what stands between the job and a denial, and between it and a pass where a doubt enlarges.
	Doubts []Doubt `json:"-"`

	draft *draft
}

// Preset is the name of the model in the catalog, or "".
func (j Job) Preset() string {
	if j.draft == nil {
		return ""
	}
	return j.draft.text("/model/preset")
}

// Place is a line of a file.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Origin says where a field's value comes from.
type Origin struct {
	// Kind is file, argument, environment, default, derived or said.
	Kind setting.Kind `json:"kind" swaggertype:"string" enums:"file,argument,environment,default,derived,said"`
	File string       `json:"file,omitempty"`
	Line int          `json:"line,omitempty"`
	// Key is the tool's word for it, Text what stands there.
	Key  string `json:"key,omitempty"`
	Text string `json:"text,omitempty"`
	// Ref is the release, file and line of a default; How says how a value was derived.
	Ref string `json:"ref,omitempty"`
	How string `json:"how,omitempty"`
}

// Overridden is a value that has no effect.
type Overridden struct {
	Key   string `json:"key"`
	Text  string `json:"text,omitempty"`
	Place `json:",inline"`
}

// Assumption is something that no file says for certain and that was taken to be so.
type Assumption struct {
	Pointer string `json:"pointer,omitempty"`
	Say     string `json:"say"`
	// Uncertain says that the job may need more than its document says: a file that the script changes is read as it
	// lies there.
	Uncertain bool `json:"uncertain,omitempty"`

	// tainted is set where it is about a word that is in doubt by itself.
	tainted bool
	// Settled says that the job takes the same where it is not so.
	Settled bool `json:"-"`
}

// Question asks for what no file says.
type Question struct {
	// Pointer is the field in the document.
	Pointer string `json:"pointer"`
	Ask     string `json:"ask"`
	Why     string `json:"why,omitempty"`
	// Flag gives the answer to vramplan read, and to the commands that take --from.
	Flag string `json:"flag"`

	// word is the word that is asked about, which the user may say to change nothing.
	word string
}

// Ignored is a word that was read and has no effect on memory.
type Ignored struct {
	Key string `json:"key"`
	Place
}

// Refusal says why a job is not answered.
type Refusal struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Code is stable: preference-training, not-readable, cannot-start, …
	Code string `json:"code"`
	Say  string `json:"say"`
	// Reader is the tool, where it was recognised; Read is what could be read nevertheless.
	Reader string          `json:"reader,omitempty"`
	Read   json.RawMessage `json:"read,omitempty" swaggertype:"object"`
	// Err is why a script could not be followed; nil for other refusals.
	Err error `json:"-"`
}

func (r Refusal) String() string {
	switch {
	case r.File == "":
		return r.Say
	case r.Line == 0:
		return r.File + ": " + r.Say
	}
	return fmt.Sprintf("%s:%d: %s", r.File, r.Line, r.Say)
}

// Open are the questions of all jobs, each once.
func (a *Answer) Open() []Question {
	var out []Question
	seen := map[Question]bool{}
	for _, j := range a.Jobs {
		for _, q := range j.Questions {
			if !seen[q] {
				seen[q] = true
				out = append(out, q)
			}
		}
	}
	return out
}

// Pointers are the fields of a job in the order of its document.
func (j *Job) Pointers() []string {
	out := make([]string, 0, len(j.Origins))
	for p := range j.Origins {
		out = append(out, p)
	}
	sort.Slice(out, func(a, b int) bool { return rank(out[a]) < rank(out[b]) })
	return out
}
