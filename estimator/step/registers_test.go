package step

import (
	"reflect"
	"testing"
)

// TestStructsStayInRegisters holds what operations hand around to what the compiler keeps in registers: structs of at
// most four fields, each in turn so, and four words. With one field more a recording takes half as long again. Source:
// cmd/compile/internal/ssa/value.go (CanSSA), Go 1.26.
func TestStructsStayInRegisters(t *testing.T) {
	const fields, bytes = 4, 32
	var check func(reflect.Type)
	check = func(s reflect.Type) {
		if s.Kind() != reflect.Struct {
			return
		}
		if s.NumField() > fields || s.Size() > bytes {
			t.Errorf("%s has %d fields and %d bytes; up to %d and %d stay in registers", s, s.NumField(), s.Size(),
				fields, bytes)
		}
		for i := range s.NumField() {
			check(s.Field(i).Type)
		}
	}
	for _, v := range []any{T{}, op{}, storage{}, act{}, Event{}, Weight{}} {
		check(reflect.TypeOf(v))
	}
}
