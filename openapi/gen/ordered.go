package main

import (
	"bytes"
	"encoding/json"
	"slices"
)

// ordered is an object whose names have an order, for people: swag sorts the
// properties of a type by name, the contract has them by meaning.
type ordered struct {
	names  []string
	values object
}

// MarshalJSON writes the names in their order, then those that it does not have.
func (o ordered) MarshalJSON() ([]byte, error) {
	names := slices.DeleteFunc(slices.Clone(o.names), func(name string) bool { return o.values[name] == nil })
	rest := len(names)
	for name := range o.values {
		if !slices.Contains(names[:rest], name) {
			names = append(names, name)
		}
	}
	slices.Sort(names[rest:])
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := e.Encode(name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := e.Encode(o.values[name]); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
