package draft

import (
	"encoding/json"
	"fmt"
)

// Place is a line of a file.
type Place struct {
	File string `json:"file"`
	Line int    `json:"line"`
}

func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// Assumption is something that no file says for certain and that was taken to be so.
type Assumption struct {
	Pointer string `json:"pointer,omitempty"`
	Say     string `json:"say"`
	// Uncertain says that the job may need more than its document says: a file that the script changes is read as it
	// lies there.
	Uncertain bool `json:"uncertain,omitempty"`

	// Tainted is set where it is about a word that is in doubt by itself.
	Tainted bool `json:"-"`
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

	// Word is the word that is asked about, which the user may say to change nothing.
	Word string `json:"-"`
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

// Clip shortens what a user wrote before it is shown. Values outside the table of fields are never shown at all.
func Clip(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return s
}
