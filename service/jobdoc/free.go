package jobdoc

import (
	"bytes"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
)

// keep stores an object of another tool as it is.
func (r *reader) keep(dst reflect.Value) error {
	from := r.dec.InputOffset()
	if err := r.free(true); err != nil {
		return err
	}
	dst.SetBytes(bytes.Clone(bytes.TrimLeft(r.data[from:r.dec.InputOffset()], " \t\r\n:,")))
	return nil
}

// free walks a value whose fields nobody knows. Equal keys are reported where
// somebody will read the value later.
func (r *reader) free(unique bool) error {
	switch r.dec.PeekKind() {
	case jsontext.KindBeginObject:
		if err := r.enter(); err != nil {
			return err
		}
		var seen map[string]struct{}
		for r.dec.PeekKind() != jsontext.KindEndObject {
			name, err := r.name()
			if err != nil {
				return err
			}
			if unique {
				if seen == nil {
					seen = make(map[string]struct{}, 32)
				}
				if _, dup := seen[string(name)]; dup {
					r.add(CodeDuplicateField, "is given more than once")
				} else {
					seen[string(name)] = struct{}{}
				}
			}
			if err := r.freeStep(unique); err != nil {
				return err
			}
		}
		return r.leave()
	case jsontext.KindBeginArray:
		if err := r.enter(); err != nil {
			return err
		}
		for i := 0; r.dec.PeekKind() != jsontext.KindEndArray; i++ {
			r.path = append(r.path, segment{index: i})
			if err := r.freeStep(unique); err != nil {
				return err
			}
		}
		return r.leave()
	}
	return r.skip()
}

func (r *reader) freeStep(unique bool) error {
	err := r.free(unique)
	r.path = r.path[:len(r.path)-1]
	if err != nil {
		return err
	}
	return r.enough()
}
