package step

// Section is a part of a model outside its layers that a strategy may deal out by itself.
type Section uint8

// The sections: everything that is in none, the input embedding, and the last norm with the head.
const (
	NoSection Section = iota
	InputSection
	HeadSection
)

// Sections are what hooks do besides where a section is a unit of its own.
type Sections interface {
	// BeforeSection is the input x of a section as it sees it, which the caller lets go of; AfterSection takes over
	// what the section returned.
	BeforeSection(s Section, x T) T
	AfterSection(s Section, y T) T
}

// Section runs a section on x, which it borrows.
func (t *Tape) Section(s Section, x T, run func(x T) T) T {
	h, ok := hooksAs[Sections](t.hooks)
	if !ok {
		return run(x)
	}
	seen := h.BeforeSection(s, x)
	y := h.AfterSection(s, run(seen))
	t.Drop(seen)
	return y
}

// OpenSection is x, which it takes over, as a section sees it that CloseSection ends.
func (t *Tape) OpenSection(s Section, x T) T {
	h, ok := hooksAs[Sections](t.hooks)
	if !ok {
		return x
	}
	seen := h.BeforeSection(s, x)
	t.Drop(x)
	return seen
}

// CloseSection takes over what the section returned.
func (t *Tape) CloseSection(s Section, y T) T {
	if h, ok := hooksAs[Sections](t.hooks); ok {
		return h.AfterSection(s, y)
	}
	return y
}
