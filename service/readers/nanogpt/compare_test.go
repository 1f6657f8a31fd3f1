package nanogpt

import (
	"strings"
	"testing"
)

const short = `import os
n_layer = 12 # of gpt2
gradient_accumulation_steps = 5 * 8
dtype = 'bfloat16' if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else 'float16'
config_keys = [k for k,v in globals().items()]
exec(open('configurator.py').read())
n_layer += 0
`

// TestTrainFingerprint: values of nanoGPT's own keys in front of the configurator are read and may differ; everything
// else is the program. The print itself stays, since those of the published states are kept.
func TestTrainFingerprint(t *testing.T) {
	const kept = "b1026a64bff2a85122c3"
	for _, tt := range []struct {
		name, old, new string
		same           bool
	}{
		{"as it is", "", "", true},
		{"another value", "n_layer = 12", "n_layer = 48", true},
		{"another product", "5 * 8", "5 * 8 * 2", true},
		{"a comment", "# of gpt2", "# of mine", true},
		{"a value that nobody knows", "n_layer = 12", "n_layer = layers()", false},
		{"another type by the card", "else 'float16'", "else 'float32'", false},
		{"behind the configurator", "n_layer += 0", "n_layer += 1", false},
	} {
		if got := trainFingerprint([]byte(strings.Replace(short, tt.old, tt.new, 1))); got == kept != tt.same {
			t.Errorf("%s: %s, want that of the program: %v", tt.name, got, tt.same)
		}
	}
}
