package setting

import (
	"slices"
	"strings"
)

// Settings are values by their key. Nested keys are joined by points (train.micro_batch_size), elements of lists are
// numbered (process.0.type); a list or an object is there as a whole too.
type Settings struct {
	order []string
	items map[string]Value
	read  map[string]bool
	// still are the keys, and with a "*" their beginnings, that move no memory whatever their values are.
	still map[string]bool
	// losers are values that another value of the same key won over.
	losers []Value
}

// New makes empty settings.
func New() *Settings {
	return &Settings{items: map[string]Value{}, read: map[string]bool{}, still: map[string]bool{}}
}

// Set gives a key a value. What it had before is kept among the losers.
func (s *Settings) Set(key string, v Value) {
	if v.Origin.Key == "" {
		v.Origin.Key = key
	}
	if old, ok := s.items[key]; ok {
		if old.Origin.Kind != Default && old.Origin.At.Known() && old.Origin.At != v.Origin.At {
			s.losers = append(s.losers, old)
		}
	} else {
		s.order = append(s.order, key)
	}
	s.items[key] = v
}

// Has reports whether a key is there, null or not, and does not mark it as read.
func (s *Settings) Has(key string) bool { _, ok := s.items[key]; return ok }

// Any reports whether one of the keys is there.
func (s *Settings) Any(keys ...string) bool { return slices.ContainsFunc(keys, s.Has) }

// Get is the value of the first of the keys that is there and not null. All of them count as read.
func (s *Settings) Get(keys ...string) (Value, bool) {
	for _, key := range keys {
		s.read[key] = true
	}
	for _, key := range keys {
		if v, ok := s.items[key]; ok && v.Given() {
			return v, true
		}
	}
	return Value{}, false
}

// Peek is Get without marking anything as read.
func (s *Settings) Peek(key string) (Value, bool) { v, ok := s.items[key]; return v, ok }

// Text is a value as a word, or "" where there is none or none that is known.
func (s *Settings) Text(keys ...string) string {
	v, ok := s.Get(keys...)
	if !ok || v.Unknown != "" {
		return ""
	}
	return v.String()
}

// On reports whether a switch is on; one that is not there, or not known, is off.
func (s *Settings) On(keys ...string) bool {
	v, ok := s.Get(keys...)
	if !ok {
		return false
	}
	on, _ := v.Bool()
	return on
}

// Read marks keys as understood: those that begin with a prefix that ends in "*", too.
func (s *Settings) Read(keys ...string) {
	for _, key := range keys {
		prefix, wild := strings.CutSuffix(key, "*")
		if !wild {
			s.read[key] = true
			continue
		}
		for _, k := range s.order {
			if strings.HasPrefix(k, prefix) {
				s.read[k] = true
			}
		}
	}
}

// Still marks keys as words that move no memory, whatever their values are, and as read: those that begin with a prefix
// that ends in "*", too. A value of theirs that is not known leaves nothing open.
func (s *Settings) Still(keys ...string) {
	s.Read(keys...)
	for _, key := range keys {
		s.still[key] = true
	}
}

// IsStill reports whether a key was marked as one that moves no memory.
func (s *Settings) IsStill(key string) bool {
	if s.still[key] {
		return true
	}
	for i := range len(key) {
		if s.still[key[:i+1]+"*"] {
			return true
		}
	}
	return false
}

// Rest lists the keys of scalars and lists that nobody read, in their order. What lies below a key that was read
// counts as read with it.
func (s *Settings) Rest() []string {
	var rest []string
	for _, key := range s.order {
		if _, object := s.items[key].Any.(map[string]any); object || s.covered(key) {
			continue
		}
		rest = append(rest, key)
	}
	return rest
}

func (s *Settings) covered(key string) bool {
	for {
		if s.read[key] {
			return true
		}
		i := strings.LastIndexByte(key, '.')
		if i < 0 {
			return false
		}
		key = key[:i]
	}
}

// Keys lists all keys in their order.
func (s *Settings) Keys() []string { return s.order }

// Len is the number of keys.
func (s *Settings) Len() int { return len(s.order) }

// Losers are the values that had no effect, because another place says something else.
func (s *Settings) Losers() []Value { return s.losers }

// Under gives the settings below a key as settings of their own; reading those marks nothing here.
func (s *Settings) Under(key string) *Settings {
	out := New()
	s.read[key] = true
	for _, k := range s.order {
		if rest, ok := strings.CutPrefix(k, key+"."); ok {
			out.Set(rest, s.items[k])
		}
	}
	return out
}

// Over lays other settings over these: theirs win.
func (s *Settings) Over(other *Settings) {
	for _, k := range other.order {
		s.Set(k, other.items[k])
	}
	s.losers = append(s.losers, other.losers...)
}

// Clone is an independent copy.
func (s *Settings) Clone() *Settings {
	out := New()
	out.Over(s)
	return out
}

// Replace changes the value of a key in its place, without a loser.
func (s *Settings) Replace(key string, v Value) {
	if _, ok := s.items[key]; ok {
		s.items[key] = v
	}
}

// FirstOn is the first of some switches that is on.
func (s *Settings) FirstOn(keys ...string) (Value, bool) {
	for _, key := range keys {
		if v, ok := s.Get(key); ok && v.On() {
			return v, true
		}
	}
	return Value{}, false
}
