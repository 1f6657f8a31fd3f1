package jobdoc

import (
	"bytes"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// maxCompared bounds the work for a hostile name.
const maxCompared = 64

// otherTools are the names that other tools give to fields of a job.
var otherTools = map[string]string{
	"batch_size":                  "micro_batch",
	"micro_batch_size":            "micro_batch",
	"per_device_train_batch_size": "micro_batch",
	"train_batch_size":            "micro_batch",
	"seq_len":                     "sequence_length",
	"seq_length":                  "sequence_length",
	"max_seq_len":                 "sequence_length",
	"max_seq_length":              "sequence_length",
	"gradient_accumulation_steps": "gradient_accumulation",
	"grad_accum":                  "gradient_accumulation",
	"accumulation_steps":          "gradient_accumulation",
	"activation_checkpointing":    "gradient_checkpointing",
	"checkpointing":               "gradient_checkpointing",
	"dtype":                       "precision",
	"mixed_precision":             "precision",
	"optim":                       "optimizer",
	"attn_implementation":         "attention",
	"attention_implementation":    "attention",
	"num_gpus":                    "world_size",
	"gpu":                         "gpus",
	"config":                      "hf_config",
	"model_config":                "hf_config",
	"max_grad_norm":               "clip_grad_norm",
	"grad_clip":                   "clip_grad_norm",
	"global_batch_size":           "effective_batch",
	"id":                          "preset",
	"n_layers":                    "n_layer",
	"num_layers":                  "layers",
	"num_hidden_layers":           "layers",
	"hidden_size":                 "hidden",
	"num_attention_heads":         "heads",
	"num_key_value_heads":         "kv_heads",
	"intermediate_size":           "ffn",
	"vocab_size":                  "vocab",
	"r":                           "rank",
	"lora_r":                      "rank",
}

// nearestField finds the known field that somebody who wrote name probably
// meant: among those of n by spelling or by another tool's name, or anywhere
// else in the document, and then it says where.
func nearestField(root, n *node, name string) string {
	names := make([]string, len(n.fields))
	for i, f := range n.fields {
		names[i] = f.name
	}
	if near := nearest(name, names); near != "" {
		return near
	}
	known := otherTools[strings.ToLower(name)]
	if known != "" && n.field(known) != nil {
		return known
	}
	for depth := range 4 {
		for _, candidate := range []string{name, known} {
			if where := find(root, candidate, "", depth); where != "" {
				return where
			}
		}
	}
	return ""
}

// find looks for a field by its exact name, depth levels below n.
func find(n *node, name, at string, depth int) string {
	if depth == 0 {
		if n.field(name) != nil {
			return at + "/" + name
		}
		return ""
	}
	for _, f := range n.fields {
		if where := find(f.node, name, at+"/"+f.name, depth-1); where != "" {
			return where
		}
	}
	return ""
}

// nearest is the choice that given continues or is cut from, else the one that
// differs from it by the fewest edits, up to about a third of its length, else the longest that it contains, or "".
// Case, dashes and underscores do not count.
func nearest(given string, choices []string) string {
	if len(given) > maxCompared {
		return ""
	}
	given = fold(given)
	allowed := 1
	if len(given) > 4 {
		allowed = max(2, min(3, len(given)/3))
	}
	best, fewest := "", allowed+1
	for _, c := range choices {
		d := levenshtein.ComputeDistance(given, fold(c))
		if d == 2 && sameLetters(given, fold(c)) { // two that changed places
			d = 1
		}
		if d < fewest {
			best, fewest = c, d
		}
	}
	if best != "" {
		return best
	}
	for _, c := range choices {
		if len(c) > 3 && strings.HasPrefix(given, fold(c)) || len(given) > 3 && strings.HasPrefix(fold(c), given) {
			return c
		}
	}
	for _, c := range choices { // paged_lion_8bit, torch.optim.Adafactor
		if len(c) > max(3, len(best)) && strings.Contains(given, fold(c)) {
			best = c
		}
	}
	return best
}

func sameLetters(a, b string) bool {
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	return bytes.Equal(x, y)
}

// fold makes spellings that differ only in case and separators equal.
func fold(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		case c == '_' || c == ' ':
			return '-'
		}
		return c
	}, s)
}
