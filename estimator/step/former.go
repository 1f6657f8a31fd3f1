package step

import "github.com/vramplan/vramplan/estimator/release"

// What former releases of torch did otherwise, where that is more than a size.

var keepsSoftmaxInput = release.Declare("keeps-softmax-input", release.Change{
	Library: "torch", To: "1.11",
	What:   "softmax of torch before 1.11 saves its input besides its result",
	Source: "tools/autograd/derivatives.yaml (pytorch/pytorch#65242), 1.10 and 1.11", Shown: "published runs",
}, release.Change{
	Library: "transformers", To: "4.17", Unless: "torch",
	What: "softmax of torch before 1.11, which was there when transformers 4.16 was, saves its input " +
		"besides its result",
	Source: "release dates: torch 1.11 in March 2022, transformers 4.17 a week before", Shown: "published runs",
})

// keepSoftmax saves the result y of a softmax or a log-softmax of x and, before torch 1.11, x besides, which backward
// did not read. Source: pytorch/pytorch#65242 and #49600.
func (o op) keepSoftmax(x, y T) op {
	o.save(y)
	if o.t.Recipe.Software.Has(keepsSoftmaxInput) {
		o.save(x)
	}
	return o
}
