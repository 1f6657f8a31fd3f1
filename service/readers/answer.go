package readers

import (
	"encoding/json"
	"sort"

	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/nanogpt"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
)

// The parts of an answer that a draft is made of.
type (
	// Place is a line of a file.
	Place = draft.Place
	// Assumption is something that no file says for certain and that was taken to be so.
	Assumption = draft.Assumption
	// Question asks for what no file says.
	Question = draft.Question
	// Refusal says why a job is not answered.
	Refusal = draft.Refusal
	// Doubt is something that was not understood and may change what a job needs, or whether it runs at all.
	Doubt = draft.Doubt
)

// What is handed over to be read.
type (
	// Source is what there is to read.
	Source = source.Source
	// Said is one field that the user gave: a path with points, and a value that may be JSON.
	Said = source.Said
	// Programs are training programs that are known by what they consist of.
	Programs = source.Programs
	// Pictures says how a model of the catalog is trained with pictures.
	Pictures = source.Pictures
	// Default is what a tool takes for a setting that nobody gives, from a release on.
	Default = defaults.Default
)

// Limits of one reading.
const (
	// MaxFiles is the most files that are opened.
	MaxFiles = source.MaxFiles
	// MaxTotalBytes is the most that is read of all files together.
	MaxTotalBytes = source.MaxTotalBytes
)

// Kinds of models.
const (
	NoPictures     = source.NoPictures
	SomePictures   = source.SomePictures
	AlwaysPictures = source.AlwaysPictures
)

// PicturesOf is the kind of a model that reads pictures, and is always trained with some or not.
func PicturesOf(reads, always bool) Pictures { return source.PicturesOf(reads, always) }

// ProgramsOf takes two texts for nanoGPT's train.py and model.py.
func ProgramsOf(train, model []byte) Programs { return nanogpt.ProgramsOf(train, model) }

// DefaultsOf lists the defaults of a tool, or of all of them for "".
func DefaultsOf(tool string) []Default { return defaults.Of(tool) }

// TopicOf says what a word of a training configuration is about, where that changes what a GPU holds.
func TopicOf(word string) (name string, enlarges bool) { return draft.TopicOf(word) }

// Answer is what was read: jobs in the order in which they run, and what could not be read of those that were refused.
type Answer struct {
	Jobs     []Job           `json:"jobs"`
	Refusals []draft.Refusal `json:"refusals,omitempty"`
}

// Job is one training job.
type Job struct {
	// Document is the job document, without what is asked for.
	Document json.RawMessage `json:"document" swaggertype:"object"`
	// Reader is the tool whose words were read: axolotl, llama-factory, …
	Reader string `json:"reader"`
	// Command is where the job is started; nothing where only a configuration was given.
	Command *draft.Place `json:"command,omitempty"`
	// Origins says for every field where it stands, by its pointer in the document.
	Origins map[string]Origin `json:"origins"`
	// Overridden are values that have no effect, because another place wins.
	Overridden []Overridden `json:"overridden,omitempty"`
	// Assumptions are what was taken to be so.
	Assumptions []draft.Assumption `json:"assumptions,omitempty"`
	// Questions are what no file says, all at once.
	Questions []draft.Question `json:"questions,omitempty"`
	// Ignored are words that do not change the memory, as far as vramplan knows.
	Ignored []Ignored `json:"ignored,omitempty"`
	// Doubts are what stands between the job and a denial, and between it and a pass where a doubt enlarges.
	Doubts []draft.Doubt `json:"-"`

	draft *draft.Draft
}

// Preset is the name of the model in the catalog, or "".
func (j Job) Preset() string {
	if j.draft == nil {
		return ""
	}
	return j.draft.Text("/model/preset")
}

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
	Key         string `json:"key"`
	Text        string `json:"text,omitempty"`
	draft.Place `json:",inline"`
}

// Ignored is a word that was read and has no effect on memory.
type Ignored struct {
	Key string `json:"key"`
	draft.Place
}

// Open are the questions of all jobs, each once.
func (a *Answer) Open() []draft.Question {
	var out []draft.Question
	seen := map[draft.Question]bool{}
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
	sort.Slice(out, func(a, b int) bool { return draft.Rank(out[a]) < draft.Rank(out[b]) })
	return out
}
