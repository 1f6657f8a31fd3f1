// Package recording reads what a PyTorch module did in one training step under fake tensors: what it allocated and let
// go of, what its autograd nodes saved, and what each of them did in backward, with sizes in symbols. The recorder in
// recorder/ writes it; what becomes of it is package model's.
//
// A recording has one program for each kind of precision, of up to three stretches: before the layers that repeat, one
// layer, and after them. A program is a list of lines, each one instruction:
//
//	A 3 768BT f32 embedding     allocate value 3, 768 × B × T elements, by the operation embedding
//	A 6 768BT bf16 clone 5      the same, where attention on the card did not put the tokens of 5 first itself
//	F 3                         the program lets go of value 3
//	W 1                         a matrix product, with a bias in the same kernel
//	R rows 1BT 768              a reduction of a matrix of B·T rows and 768 columns over its rows
//	C 4 l2                      autocast's copy of the layer's parameter 2 is value 4
//	Q 5 1 2 3 - …               attention on values 1, 2 and 3, without a mask
//	P n                         what follows belongs to the norms
//	N 7 1 6.0,l0 3,4            node 7 of autograd's graph, with one output, hands gradients to node 6 and parameter 0 and saves values 3 and 4
//	U p0                        an operation of an evaluation, which has no graph, reads parameter 0
//	L 8 0 1BT f32               value 0 wants a gradient of its own, as requires_grad makes it, and counts as node 8
//	[ up l 5 5.0 768BT f32 l0 0  the linear layer up begins, on value 5 with the edge 5.0, with the layer's parameter 0
//	] 8 11.0                    and ends: it returns value 8, which node 11 made
//
// The lines in small letters behind a node are its backward: a and f allocate and free registers, w and r are products
// and reductions, e is an embedding's gradient, i sorts indices below a number of rows, | ends the operation's own
// backward, s, v, b, p, q, S and u say what each input gets, and z that it is a view of another size than its memory.
// Behind a, e and what is saved, =1 says that it is there for the gradient of input 1 alone: without that gradient, it
// is not there.
package recording
