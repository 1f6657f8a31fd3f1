package defaults

import (
	"slices"
	"testing"
)

func TestRow(t *testing.T) {
	for _, tt := range []struct{ key, release, value string }{
		{"gradient_checkpointing", "0.15.2", "-"}, {"gradient_checkpointing", "0.22.2", "True"},
		{"gradient_checkpointing", "", "True"},
		{"gradient_checkpointing", "0.9.6", "-"}, {"gradient_checkpointing", "1.10.0", "True"},
		{"bf16", "0.18.2", "-"}, {"bf16", "0.19", "None"}, {"max_length", "0.15.2", ""},
		{"max_length", "1.9.0", "1024"}, {"max_seq_length", "0.12.2", "None"},
		{"loss_type", "1.9.0", "None"}, {"loss_type", "0.26.0", "'nll'"},
	} {
		if d, _ := Row("trl", tt.key, tt.release); d.Value != tt.value {
			t.Errorf("%s of trl %s: %q, want %q", tt.key, tt.release, d.Value, tt.value)
		}
	}
}

// Rows of a key are in the order of releases, so that the last that is not newer holds.
func TestDefaultsAreInOrder(t *testing.T) {
	last := map[string]string{}
	for _, d := range Of("") {
		key := d.Tool + " " + d.Key
		if slices.Contains(TRLLimits, d) || slices.Contains(loads, d) {
			key += d.Class
		}
		if before, ok := last[key]; ok && !Older(before, d.From) && before != "" {
			t.Errorf("%s: %s behind %s", key, d.From, before)
		}
		last[key] = d.From
		if d.File == "" || d.Class == "" || d.Value == "" {
			t.Errorf("%s has no source", key)
		}
	}
	if len(Of("llama-factory")) == 0 || len(Of("nothing")) != 0 ||
		len(Of("")) != len(defaults)+len(loads)+len(TRLLimits) {
		t.Error("Of finds other rows than those of the tool")
	}
}
