package compare

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
)

// fillIn puts what a job was taken for in the place of what its document leaves out.
func (x *change) fillIn(a, b *estimator.Result) {
	if !strings.HasPrefix(x.Pointer, training+"/") {
		return
	}
	name := strings.TrimPrefix(x.Pointer, training+"/")
	if x.A == nil {
		x.A = completed(a)[name]
	}
	if x.B == nil {
		x.B = completed(b)[name]
	}
}

// completed is the training that a job was taken for, as plain values.
func completed(r *estimator.Result) map[string]any {
	if r.Assumed == nil || r.Assumed.Training == nil {
		return nil
	}
	text, err := json.Marshal(r.Assumed.Training)
	if err != nil {
		return nil
	}
	var fields map[string]any
	if json.Unmarshal(text, &fields) != nil {
		return nil
	}
	return fields
}

// follows are the fields of the training for which two jobs were taken differently, but for those that were changed.
func follows(a, b *estimator.Result, changed []Change) []Change {
	var list []Change
	differing(training, completed(a), completed(b), &list)
	return slices.DeleteFunc(list, func(x Change) bool {
		return slices.ContainsFunc(changed, func(y Change) bool {
			return x.Pointer == y.Pointer || strings.HasPrefix(x.Pointer, y.Pointer+"/")
		})
	})
}

// differing lists the values that stand in one of two objects, or are others in the second, in the order of their
// pointers.
func differing(at string, a, b map[string]any, list *[]Change) {
	keys := make([]string, 0, len(a)+len(b))
	for _, fields := range []map[string]any{a, b} {
		for key := range fields {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		va, vb := a[key], b[key]
		inA, isA := va.(map[string]any)
		inB, isB := vb.(map[string]any)
		switch {
		case isA && (isB || vb == nil), isB && va == nil:
			differing(at+"/"+escape(key), inA, inB, list)
		case !reflect.DeepEqual(va, vb):
			*list = append(*list, Change{at + "/" + escape(key), va, vb})
		}
	}
}
