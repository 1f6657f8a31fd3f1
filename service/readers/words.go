package readers

// words are a tool's own names for what a plan may change: how a field of a job document is written in the tool's
// settings, for patches. A field that is not there cannot be set in this tool.
type words map[string]func(value any) (key, text string, ok bool)

var trainerWords = words{}

var (
	axolotlWords      = words{}
	llamaFactoryWords = words{}
	nanoGPTWords      = words{}
	deepspeedWords    = words{}
	swiftWords        = words{}
	torchtuneWords    = words{}
	torchtitanWords   = words{}
	litgptWords       = words{}
)
