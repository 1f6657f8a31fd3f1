package catalog

import (
	"strings"
	"unicode"
)

// vendorWords are dropped from the front of a GPU's name. "Quadro" is not among
// them: a Quadro RTX 6000 and an RTX 6000 Ada are different cards.
var vendorWords = map[string]bool{
	"nvidia": true, "geforce": true, "tesla": true,
	"amd": true, "instinct": true, "radeon": true,
	"intel": true,
}

// trailingWords are dropped from the end: nvidia-smi calls laptop cards
// "… Laptop GPU", Intel's end in "Graphics", and gpu-feature-discovery appends
// SHARED to the product label of a time-sliced card.
var trailingWords = map[string]bool{"gpu": true, "graphics": true, "shared": true}

var trademarks = strings.NewReplacer("(r)", " ", "(tm)", " ", "®", " ", "™", " ")

// GPUKey is the form in which the names of GPUs are compared: lower case,
// without separators, vendor in front and empty words behind. Two names with the
// same key are the same name.
func GPUKey(name string) string { return strings.Join(gpuWords(name), "") }

func gpuWords(name string) []string {
	name = trademarks.Replace(strings.ToLower(name))
	words := strings.FieldsFunc(name, func(r rune) bool {
		switch r {
		case '-', '_', '/', ',', ';', ':', '(', ')', '[', ']', '"', '\'':
			return true
		}
		return unicode.IsSpace(r)
	})
	for len(words) > 1 && vendorWords[words[0]] {
		words = words[1:]
	}
	for len(words) > 1 && trailingWords[words[len(words)-1]] {
		words = words[:len(words)-1]
	}
	return words
}

// ModelKey is the form in which the names of models are compared: lower case,
// with one kind of separator. Dots and slashes stay, since Qwen2.5 and Qwen25
// would be different models.
func ModelKey(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return unicode.IsSpace(r) || r == '-' || r == '_'
	}), "-")
}

// joined is a model's key without the separators that people put elsewhere: llama3.1-8b is llama-3.1-8b. One between
// two digits stays: Qwen3-8B is not Qwen-38B.
func joined(key string) string {
	var b strings.Builder
	for i := range len(key) {
		if key[i] == '-' && (i == 0 || i == len(key)-1 || !digit(key[i-1]) || !digit(key[i+1])) {
			continue
		}
		b.WriteByte(key[i])
	}
	return b.String()
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// lastComponent is what follows the last slash of a model's key.
func lastComponent(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }
