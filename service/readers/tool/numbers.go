package tool

import (
	"fmt"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// Number puts a whole number into a field, asks where it is not known, and reports whether there was a value.
func (r *Job) Number(pointer, ask string, keys ...string) bool {
	v, ok := r.In.Get(keys...)
	if !ok {
		return false
	}
	r.NumberOf(pointer, ask, v)
	return true
}

// NumberOf puts a whole number into a field, or asks where it is not known.
func (r *Job) NumberOf(pointer, ask string, v setting.Value) {
	n, isInt := v.Int()
	if v.Unknown != "" || !isInt || n < 1 {
		why := v.Unknown
		if why == "" {
			why = fmt.Sprintf("%s is %q", v.Origin.Key, v.String())
		}
		if at := v.Origin.At.Where(); at != "" {
			why = at + ": " + why
		}
		r.Out.Ask(pointer, ask, why)
		return
	}
	r.Out.Put(pointer, n, v)
}

const (
	AskMicroBatch   = "How many sequences does one GPU take at a time?"
	AskLength       = "How many tokens has a sequence?"
	AskAccumulation = "How many micro-batches make an optimizer step?"
)

// Flag is a switch's value; one that is not there is not given.
func (r *Job) Flag(keys ...string) setting.Value {
	v, _ := r.In.Get(keys...)
	return v
}
