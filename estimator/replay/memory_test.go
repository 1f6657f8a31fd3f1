package replay

import "testing"

// TestReplaysForget all but the last that were asked for, and play none twice that they remember.
func TestReplaysForget(t *testing.T) {
	p := NewMemoryOf(2)
	key := func(peak int64) asked { return asked{peak: peak} }
	first := p.find(key(1), &Played{})
	if p.find(key(1), &Played{}) != first {
		t.Error("what was asked last is not remembered")
	}
	for peak := range int64(3) {
		p.find(key(peak+2), &Played{})
	}
	if p.find(key(1), &Played{}) != first {
		t.Error("what was asked before the last two is not remembered")
	}
	for peak := range int64(1000) {
		p.find(key(peak+10), &Played{})
	}
	if n := p.count(); n > 4 {
		t.Errorf("%d are remembered, more than 4", n)
	}
	if p.find(key(1), &Played{}) == first {
		t.Error("what nobody asked for 1,000 questions is still remembered")
	}
}
