package recordings

// operation is what a recorded operation is to Inductor.
type operation uint8

const (
	// outside runs as it does eagerly, on tensors that exist.
	outside operation = iota
	fused
	reduced
	multiplied
	special
)

// operations are those that are not outside.
//
// Source: torch/_inductor/lowering.py and torch/_inductor/decomposition.py (what becomes Pointwise, Reduction or a
// kernel of a library), torch 2.9.
var operations = func() map[string]operation {
	list := map[string]operation{}
	for kind, names := range map[operation][]string{
		fused: {"_to_copy", "abs", "add", "addcdiv", "addcmul", "arange", "bitwise_and", "bitwise_not", "bitwise_or",
			"cat",
			"ceil", "clamp", "clamp_max", "clamp_min", "clone", "constant_pad_nd", "copy", "cos", "div", "elu", "eq",
			"erf",
			"exp", "expm1", "fill", "flip", "floor", "full", "full_like", "ge", "gelu", "glu", "gt", "hardsigmoid",
			"hardswish", "hardtanh", "le", "leaky_relu", "lerp", "log", "log1p", "logical_and", "logical_not",
			"logical_or",
			"log_sigmoid_forward", "lt", "masked_fill", "maximum", "minimum", "mish", "mul", "ne", "neg", "ones",
			"ones_like",
			"pow", "reciprocal", "relu", "remainder", "repeat", "roll", "round", "rsqrt", "rsub", "scalar_tensor",
			"sigmoid",
			"sign", "silu", "sin", "softplus", "sqrt", "square", "stack", "sub", "tanh", "threshold", "tril", "triu",
			"where",
			"zeros", "zeros_like"},
		reduced: {"all", "amax", "amin", "any", "linalg_vector_norm", "logsumexp", "mean", "prod", "std", "sum", "var",
			"mse_loss", "smooth_l1_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "huber_loss"},
		multiplied: {"addmm", "addmv", "baddbmm", "bmm", "mm", "mv"},
		special: {"_log_softmax", "_softmax", "embedding", "native_dropout", "native_layer_norm",
			"nll_loss_forward"},
	} {
		for _, name := range names {
			list[name] = kind
		}
	}
	return list
}()
