package job

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// The union types below also accept a shorter JSON form than an object. The
// strict reader of job documents asks Shorthand which JSON kinds those are
// ("string", "number", "bool", "array"); an object is always walked field by field.

// Shorthand says that an optimizer may be its name.
func (Optimizer) Shorthand() []string { return []string{"string"} }

// Shorthand says that checkpointing may be its mode.
func (Checkpointing) Shorthand() []string { return []string{"string"} }

// Shorthand says that a loss may be its kind.
func (Loss) Shorthand() []string { return []string{"string"} }

// Shorthand says that compile may be true or false.
func (Compile) Shorthand() []string { return []string{"bool"} }

// Shorthand says that dropout may be one number.
func (Dropout) Shorthand() []string { return []string{"number"} }

// Shorthand says that a GPU may be its name.
func (GPURef) Shorthand() []string { return []string{"string"} }

// Shorthand says that target modules may be one name.
func (Targets) Shorthand() []string { return []string{"string"} }

// UnmarshalJSON accepts a name or an object.
func (o *Optimizer) UnmarshalJSON(b []byte) error {
	type plain Optimizer
	return either(b, &o.Name, (*plain)(o))
}

// UnmarshalJSON accepts a mode or an object.
func (c *Checkpointing) UnmarshalJSON(b []byte) error {
	type plain Checkpointing
	return either(b, &c.Mode, (*plain)(c))
}

// UnmarshalJSON accepts a kind or an object.
func (l *Loss) UnmarshalJSON(b []byte) error {
	type plain Loss
	return either(b, &l.Kind, (*plain)(l))
}

// UnmarshalJSON accepts a boolean (model and loss together) or an object.
func (c *Compile) UnmarshalJSON(b []byte) error {
	type plain Compile
	var on bool
	if err := either(b, &on, (*plain)(c)); err != nil {
		return err
	}
	if on {
		c.Model, c.Loss = true, true
	}
	return nil
}

// UnmarshalJSON accepts one probability or an object.
func (d *Dropout) UnmarshalJSON(b []byte) error {
	type plain Dropout
	var p *float64
	if err := either(b, &p, (*plain)(d)); err != nil {
		return err
	}
	if p != nil {
		d.Hidden, d.Attention = p, p
	}
	return nil
}

// UnmarshalJSON accepts a name or an object.
func (g *GPURef) UnmarshalJSON(b []byte) error {
	type plain GPURef
	return either(b, &g.Name, (*plain)(g))
}

// Stage is a stage of a pipeline, from 0, or one that is named.
type Stage int64

// Shorthand says that a stage is its number or its name.
func (Stage) Shorthand() []string { return []string{"number", "string"} }

// The stages that are named where their number depends on how many there are.
const (
	LastStage   Stage = -1
	MiddleStage Stage = -2
)

// stageNames are the names of stages.
var stageNames = map[string]Stage{"first": 0, "middle": MiddleStage, "last": LastStage}

// UnmarshalJSON accepts a number or a name.
func (s *Stage) UnmarshalJSON(b []byte) error {
	if first(b) != '"' {
		if err := json.Unmarshal(b, (*int64)(s)); err != nil || *s < 0 {
			return fmt.Errorf("a stage is a whole number from 0, or first, middle or last, not %.40s", b)
		}
		return nil
	}
	var name string
	if err := json.Unmarshal(b, &name); err != nil {
		return err
	}
	named, ok := stageNames[name]
	if !ok {
		return fmt.Errorf("a stage is a whole number from 0, or first, middle or last, not %.40q", name)
	}
	*s = named
	return nil
}

// MarshalJSON writes the form that UnmarshalJSON reads.
func (s Stage) MarshalJSON() ([]byte, error) {
	switch s {
	case LastStage:
		return json.Marshal("last")
	case MiddleStage:
		return json.Marshal("middle")
	}
	return json.Marshal(int64(s))
}

// Of is its number among so many.
func (s Stage) Of(stages int64) int64 {
	switch s {
	case LastStage:
		return stages - 1
	case MiddleStage:
		return stages / 2
	}
	return int64(s)
}

// UnmarshalJSON accepts one name or a list of names.
func (t *Targets) UnmarshalJSON(b []byte) error {
	if first(b) == '"' {
		var one string
		if err := json.Unmarshal(b, &one); err != nil {
			return err
		}
		*t = Targets{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*t = list
	return nil
}

func first(b []byte) byte {
	if b = bytes.TrimSpace(b); len(b) > 0 {
		return b[0]
	}
	return 0
}

// either reads an object into long and anything else into short.
func either(b []byte, short, long any) error {
	if first(b) == '{' {
		return json.Unmarshal(b, long)
	}
	return json.Unmarshal(b, short)
}
