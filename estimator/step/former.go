package step

// What former releases of torch did otherwise, where that is more than a size.

// keepSoftmax saves the result y of a softmax or a log-softmax of x and, before torch 1.11, x besides, which backward
// did not read. Source: pytorch/pytorch#65242 and #49600.
func (o op) keepSoftmax(x, y T) op {
	o.save(y)
	if o.t.Recipe.KeepsSoftmaxInput {
		o.save(x)
	}
	return o
}
