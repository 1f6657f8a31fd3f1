package fields

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
)

// Listed are the names in a table, in order.
func Listed[T any](table map[string]T) string {
	names := make([]string, 0, len(table))
	for n := range table {
		names = append(names, n)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Diffusion is the kind of training that tells noise from pictures.
const Diffusion = "diffusion"

// ObjectivePointer is where the document has its objective.
const ObjectivePointer = "/training/objective"

// Unread refuses what is said of other kinds: all but the fields that this one reads.
func Unread(fields []string, kind string, o *job.Objective, errs *invalid.List) {
	for _, f := range o.Given() {
		if !slices.Contains(fields, f) {
			errs.Add(ObjectivePointer+"/"+f, "conflict", "%s does not belong to the objective %s; leave it out", f,
				kind)
		}
	}
}

// VisionLanguage is the kind of training with pictures among the tokens.
const VisionLanguage = "vision-language"
