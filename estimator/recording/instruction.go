package recording

// Type is the type of elements as it was recorded.
type Type uint8

// The types. Those of half precision stand for the type in which the job computes.
const (
	Float32 Type = iota
	Half
	Int64
	Byte
	Float64
)

var types = map[string]Type{"f32": Float32, "bf16": Half, "f16": Half, "i64": Int64, "u8": Byte, "f64": Float64}

// Kind is what an instruction does: the letter with which its line begins.
type Kind byte

// The instructions of the forward, and those of a node's backward.
const (
	Allocate  Kind = 'A'
	Free      Kind = 'F'
	Product   Kind = 'W'
	Reduce    Kind = 'R'
	CastParam Kind = 'C'
	Attend    Kind = 'Q'
	Part      Kind = 'P'
	Node      Kind = 'N'
	Leaf      Kind = 'L'
	Use       Kind = 'U'
	Open      Kind = '['
	Close     Kind = ']'

	Take        Kind = 'a'
	Give        Kind = 'f'
	Multiply    Kind = 'w'
	Sum         Kind = 'r'
	Embedding   Kind = 'e'
	SortIndices Kind = 'i'
	Validate    Kind = '|'
	Send        Kind = 's'
	SendView    Kind = 'v'
	SendAgain   Kind = 'b'
	Pass        Kind = 'p'
	PassView    Kind = 'q'
	SendSaved   Kind = 'S'
	SendUnknown Kind = 'u'
	ViewOf      Kind = 'z'
)

// Scope says where a reference points.
type Scope uint8

// The scopes: nowhere; the stretch itself; the layer's input, or behind the layers their output; from a layer, the
// stretch before; a parameter of the model, and one of the layer.
const (
	Nowhere Scope = iota
	Own
	Input
	Outer
	Model
	Layer
)

// Ref is a value, a parameter, or an output of a node.
type Ref struct {
	Scope  Scope
	N, Out int
}

// Reduction is over what a reduction runs.
type Reduction uint8

// The reductions.
const (
	OverRows Reduction = iota
	OverColumns
	OverAll
)

// Instruction is one line.
type Instruction struct {
	Kind Kind
	// N is a value, a node or a register, K the place of an edge, of an output or of a saved tensor.
	N, K int
	Type Type
	// Name is the operation, or the letter of a part.
	Name       string
	Size       Size
	Rows, Cols Size
	Over       Reduction
	// Bias: the product adds one.
	Bias bool
	// Ref is what is freed or cast, or wants a gradient of its own; of an allocation it is what attention returned, of
	// which it is a copy with the tokens first, where the card's kernel has not put them there.
	Ref Ref
	// Edges, Saved and Backward are a node's. Alias: the node is that of the cast or the attention before it.
	Edges, Saved []Ref
	Outputs      int
	Alias        bool
	Backward     []Instruction
	// Attention is that of a line Q, Region that of a line [.
	Attention *Attention
	Region    *Region
	// Only says for the gradients of which of the node's inputs an instruction of its backward is there, OnlySaved the
	// same of what it saves, one bit for each input; 0 is for all of them.
	Only      uint64
	OnlySaved []uint64
	// Copies are those of a node that is attention's.
	Copies Copies
}

// Attention is one call of scaled_dot_product_attention.
type Attention struct {
	Query, Key, Value, Mask Ref
	Batch, Queries, Keys    Size
	Heads, KVHeads          int64
	Width, ValueWidth       int64
	Dropout                 float64
	HeadsFirst, BooleanMask bool
	// TokensOutermost: tokens lie outside of the batch.
	TokensOutermost bool
	// Edges are those of its node, none where no gradient is asked for, Copies what its backward copies first.
	Edges  []Ref
	Copies Copies
}

// Copies says what the backward of attention copies before it begins, as it wants both with the tokens outside of the
// heads: the gradient that reaches it, and what attention returned. Flash says of which kernel that was seen.
// Recordings of before do not know it.
type Copies struct{ Known, Gradient, Output, Flash bool }
