package answer

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// Tensors lists what is alive at moment m, tensors of one kind and size together, largest together first.
func (r Answerer) Tensors(m *play.Moment) []result.Tensor {
	list := make([]result.Tensor, 0, len(m.Tensors))
	for i := range m.Tensors {
		list = append(list, r.tensor(&m.Tensors[i], m.Backward))
	}
	return list
}

// tensor describes Count tensors of one kind and size; backward says whether the micro-step had begun its backward.
func (r Answerer) tensor(t *play.LiveTensor, backward bool) result.Tensor {
	out := result.Tensor{Name: tensorName(t), Component: ComponentNames[t.Component], Bytes: t.Bytes, Count: t.Count}
	size := result.Bytes(t.Bytes).String()
	if t.Typed {
		out.Dtype = result.Dtype(t.Dtype)
		out.Shape = r.shapeText(t)
		size = fmt.Sprintf("%s × %d B = %s", out.Shape, t.Dtype.Size(), size)
	}
	out.Text = out.Name + ", " + size
	if t.Count > 1 {
		out.Text += fmt.Sprintf(", %d of them, %s together", t.Count, result.Bytes(t.Bytes*t.Count))
	}
	if held := holder(t, backward); held != "" {
		out.Text += ", " + held
	}
	return out
}

// tensorName says what t is and, where it is made in the layers, in which kind of module.
func tensorName(t *play.LiveTensor) string {
	switch {
	case t.Name != "":
		return t.Label.String() + " " + t.Name
	case t.Component == step.Gradients:
		return step.LabelGradient.String()
	case t.Component == step.Activations && t.Layers:
		return PartNames[t.Part] + ": " + t.Label.String()
	}
	return t.Label.String()
}

// holder says what keeps t alive.
func holder(t *play.LiveTensor, backward bool) string {
	switch {
	case t.Component == step.Activations && t.Layers && backward:
		return "saved for backward"
	case t.Component == step.PrecisionCopies:
		return "kept until its layer's backward"
	}
	return ""
}

// shapeText writes the shape of t in the sizes of the job where its elements are a multiple of them: B × T × width,
// B × heads × T × T, else the number of elements.
func (r Answerer) shapeText(t *play.LiveTensor) string {
	b, n, h := r.Shape.Batch, r.Shape.Tokens, r.Arch.Heads
	elements := t.Bytes / t.Dtype.Size()
	tokens := b * n
	switch {
	case t.Name != "" || elements == 0 || n < 2:
		return result.Grouped(elements)
	case elements == tokens:
		return product(b, n)
	case elements == tokens*n:
		return product(b, n, n)
	case h > 1 && elements == tokens*n*h:
		return product(b, h, n, n)
	case elements%tokens == 0:
		return product(b, n, elements/tokens)
	}
	return result.Grouped(elements)
}

func product(sides ...int64) string {
	text := make([]string, len(sides))
	for i, s := range sides {
		text[i] = fmt.Sprint(s)
	}
	return strings.Join(text, " × ")
}
