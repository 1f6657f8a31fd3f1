package step

import (
	"slices"
	"testing"
)

// TestGraphPlan shows which buffer takes over whose memory, as Inductor's AllocateLine does.
func TestGraphPlan(t *testing.T) {
	const n = 1024
	tests := []struct {
		name string
		list func(g *graph) []int
		want []int // the place of each buffer that list returns
	}{
		{"the last of its size and type", func(g *graph) []int {
			a := g.buffer(n, BF16, LabelLinear)
			b := g.buffer(n, BF16, LabelLinear)
			g.done(a, b)
			return []int{g.buffer(n, BF16, LabelLinear), g.buffer(n, BF16, LabelLinear)}
		}, []int{1, 0}},
		{"another type", func(g *graph) []int {
			a := g.buffer(n, BF16, LabelLinear)
			g.buffer(n, BF16, LabelLinear)
			g.done(a)
			return []int{g.buffer(n/2, F32, LabelLinear)}
		}, []int{2}},
		{"complex numbers and what the graph was given", func(g *graph) []int {
			x := g.given(T{numel: n, form: plain(F32)})
			turned := g.turned(n, 0)
			g.done(x, turned)
			return []int{g.buffer(n, F32, LabelLinear)}
		}, []int{2}},
		{"kept too long", func(g *graph) []int { // over a kernel at which most is alive
			a := g.buffer(n, BF16, LabelLinear)
			large := g.buffer(8*n, BF16, LabelLinear)
			g.done(a)
			other := g.buffer(8*n, BF16, LabelActivation)
			g.done(large, other)
			return []int{g.buffer(n, BF16, LabelLinear)}
		}, []int{3}},
		{"kept over less", func(g *graph) []int {
			large := g.buffer(8*n, BF16, LabelLinear)
			a := g.buffer(n, BF16, LabelLinear)
			g.done(large, a)
			g.buffer(2*n, BF16, LabelLinear)
			return []int{g.buffer(n, BF16, LabelLinear)}
		}, []int{1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := graph{t: &Tape{}}
			made := tt.list(&g)
			g.plan()
			places := make([]int, len(made))
			for i, b := range made {
				places[i] = g.place(b)
			}
			if !slices.Equal(places, tt.want) {
				t.Errorf("the buffers lie at %v, want %v", places, tt.want)
			}
		})
	}
}
