package step

// DType is the element type of a tensor.
type DType uint8

// The element types that a training step uses.
const (
	F32 DType = iota
	BF16
	F16
	I64
	Bool
	F64
)

// Size is the bytes of one element.
func (d DType) Size() int64 {
	switch d {
	case F32:
		return 4
	case BF16, F16:
		return 2
	case I64, F64:
		return 8
	}
	return 1
}

// Half says whether d is one of the two half-precision types.
func (d DType) Half() bool { return d == BF16 || d == F16 }

// Component is the kind of memory that a tensor belongs to in an answer.
type Component uint8

// The components that the replay itself fills; allocator and CUDA context, and NCCL's part of
// communication, are added by the estimator.
const (
	Weights Component = iota
	Gradients
	OptimizerState
	PrecisionCopies
	Activations
	LogitsAndLoss
	Temporaries
	Communication
	ComponentCount
)

// Part divides the activations by the kind of module that made them.
type Part uint8

// The parts of the activations.
const (
	PartAttention Part = iota
	PartMLP
	PartNorm
	PartEmbedding
	PartCount
)

// T is a tensor as the replay sees it: which storage it is a view of, which
// operation made it and how many elements of which type it has. Views share a
// storage; reshaping costs nothing and is not recorded.
type T struct {
	storage int32
	edge    edge
	form
	numel int64
}

// form is the type of a tensor's elements and how they lie. It is a struct of its own because the compiler keeps
// structs in registers only if none in them has more than four fields, and tensors are what operations hand around.
type form struct {
	dtype  DType
	layout headLayout
	// permuted says that the elements lie in another order than that of the dimensions.
	permuted bool
}

// plain is the form of a tensor of type d that lies as it was made.
func plain(d DType) form { return form{dtype: d} }

// headLayout is how a tensor of heads lies in memory, as far as the operations on it notice.
type headLayout uint8

const (
	tokensFirst     headLayout = iota // as a projection leaves it
	headsFirst                        // written by a concatenation or a repetition
	tokensOutermost                   // tokens outside of the batch, as nn.MultiheadAttention has them
	repeated                          // a view that shows one head to all queries
)

// Numel is the number of elements of t.
func (t T) Numel() int64 { return t.numel }

// Dtype is the element type of t.
func (t T) Dtype() DType { return t.dtype }

// bytes is the size of t when it is laid out densely.
func (t T) bytes() int64 { return t.numel * t.dtype.Size() }

// RequiresGrad says whether backward will visit t.
func (t T) RequiresGrad() bool { return t.edge != noEdge }

// Shares says whether t and x are views of one storage.
func (t T) Shares(x T) bool { return t.storage == x.storage }

// Detached is t where no gradient reaches it, Attached where the gradient of x does.
func (t T) Detached() T    { t.edge = noEdge; return t }
func (t T) Attached(x T) T { t.edge = x.edge; return t }

// Part is one of n equal parts of t, in t's memory.
func (t T) Part(n int64) T { t.numel /= n; return t }

// edge is where a gradient goes: output out of node n (n<<outBits | out), a parameter
// (-2-p), or nowhere.
type edge int32

// outBits is how many bits of an edge say which output it is.
const outBits = 7

func edgeTo(node int32, out uint8) edge { return edge(node<<outBits | int32(out)) }

// node and out are the parts of an edge that is no parameter's.
func (e edge) node() int32 { return int32(e >> outBits) }
func (e edge) out() uint8  { return uint8(e & (1<<outBits - 1)) }

const noEdge edge = -1

func paramEdge(p int32) edge { return edge(-2 - p) }

func (e edge) param() (int32, bool) { return int32(-2 - e), e <= -2 }
