package catalog

import (
	"regexp"
	"strings"
)

// mirror is a rule by which a name that the catalog does not have means a model that it has: the same layers with the
// same sizes under another organisation, tuned further, or stored quantized. What differs in the positions that are
// trained for or in the rotary base changes no tensor's size.
type mirror struct {
	name *regexp.Regexp
	// model is the key of the model, with the groups of name in it.
	model string
}

// mirrors are compared with the part of a key behind the slash, without the suffixes of storedAs. Each is a model that
// its publisher trained further from the other, or uploaded again, without touching a size: that is what its model card
// says. The two configurations were not held against each other by a program. Not among them, although the names invite
// it: DeepSeek-R1-Distill-Qwen-1.5B, whose embeddings are not tied.
var mirrors = []mirror{
	{regexp.MustCompile(`^(?:meta-)?llama-3-(8|70)b(?:-instruct)?$`), "meta-llama/meta-llama-3-${1}b"},
	{regexp.MustCompile(`^(?:meta-)?llama-3\.1-(8|70|405)b(?:-instruct)?$`), "meta-llama/llama-3.1-${1}b"},
	{regexp.MustCompile(`^llama-3\.2-(1|3)b(?:-instruct)?$`), "meta-llama/llama-3.2-${1}b"},
	{regexp.MustCompile(`^(?:meta-)?llama-3\.3-70b-instruct$`), "meta-llama/llama-3.3-70b-instruct"},
	{regexp.MustCompile(`^llama-2-(7|13|70)b(?:-chat)?(?:-hf)?$`), "meta-llama/llama-2-${1}b-hf"},
	{regexp.MustCompile(`^vicuna-(7|13)b-v1\.5$`), "meta-llama/llama-2-${1}b-hf"},
	{regexp.MustCompile(`^deepseek-r1-distill-llama-8b$`), "meta-llama/llama-3.1-8b"},
	{regexp.MustCompile(`^deepseek-r1-distill-qwen-(7|14|32)b$`), "qwen/qwen2.5-${1}b"},
	{regexp.MustCompile(`^open[_-]llama[_-](7|13)b$`), "huggyllama/llama-${1}b"},
	{regexp.MustCompile(`^yi-(6|34)b-chat$`), "01-ai/yi-${1}b"},
	{regexp.MustCompile(`^yi-1\.5-9b-chat$`), "01-ai/yi-1.5-9b"},
	{regexp.MustCompile(`^olmo-2-1124-(7|13)b-(?:sft|dpo|instruct)$`), "allenai/olmo-2-1124-${1}b"},
	{regexp.MustCompile(`^bloomz-(560m|1b1|1b7|3b|7b1)$`), "bigscience/bloom-${1}"},
	{regexp.MustCompile(`^smollm3-3b-base$`), "huggingfacetb/smollm3-3b"},
	{regexp.MustCompile(`^zephyr-7b-sft-full$`), "mistralai/mistral-7b-v0.1"},
	{regexp.MustCompile(`^mistral-7b-(?:instruct-)?v0\.(1|3)$`), "mistralai/mistral-7b-v0.${1}"},
	{regexp.MustCompile(`^mistral-7b-(?:instruct-)?v0\.2$`), "mistralai/mistral-7b-instruct-v0.2"},
	{regexp.MustCompile(`^zephyr-7b-(?:alpha|beta)$`), "mistralai/mistral-7b-v0.1"},
	{regexp.MustCompile(`^mistral-nemo-(?:base|instruct)-2407$`), "mistralai/mistral-nemo-instruct-2407"},
	{regexp.MustCompile(`^mistral-small-24b-(?:base|instruct)-2501$`), "mistralai/mistral-small-24b-instruct-2501"},
	{regexp.MustCompile(`^qwen2-(0\.5|1\.5|7|72)b(?:-instruct)?$`), "qwen/qwen2-${1}b"},
	{regexp.MustCompile(`^qwen2-math-(1\.5|7|72)b(?:-instruct)?$`), "qwen/qwen2-${1}b"},
	{regexp.MustCompile(`^qwen2\.5-(?:coder-)?(0\.5|1\.5|3|7|14|32|72)b(?:-instruct)?$`), "qwen/qwen2.5-${1}b"},
	{regexp.MustCompile(`^qwen2\.5-math-(1\.5|7|72)b(?:-instruct)?$`), "qwen/qwen2.5-${1}b"},
	{regexp.MustCompile(`^qwen3-(0\.6|1\.7|4|8|14|32)b(?:-base)?$`), "qwen/qwen3-${1}b"},
	{regexp.MustCompile(`^qwen3-4b-(?:instruct|thinking)-2507$`), "qwen/qwen3-4b"},
	{regexp.MustCompile(`^qwen3-(30b-a3b|235b-a22b)(?:-base|-instruct-2507|-thinking-2507)?$`), "qwen/qwen3-${1}"},
	{regexp.MustCompile(`^gemma-(2|7)b(?:-it)?$`), "google/gemma-${1}b"},
	{regexp.MustCompile(`^gemma-2-(2|9|27)b(?:-it)?$`), "google/gemma-2-${1}b"},
	{regexp.MustCompile(`^gemma-3-(1|4|12|27)b-(?:it|pt)$`), "google/gemma-3-${1}b-it"},
	{regexp.MustCompile(`^pythia-(70m|160m|410m|1b|1\.4b|2\.8b|6\.9b|12b)(?:-deduped)?$`), "eleutherai/pythia-${1}"},
	{regexp.MustCompile(`^gemma-3-270m(?:-it)?$`), "google/gemma-3-270m"},
	{regexp.MustCompile(`^qwen2-vl-(2|7|72)b(?:-instruct)?$`), "qwen/qwen2-vl-${1}b-instruct"},
	{regexp.MustCompile(`^qwen2\.5-vl-(3|7|32|72)b-instruct$`), "qwen/qwen2.5-vl-${1}b-instruct"},
	{regexp.MustCompile(`^qwen3-coder-30b-a3b-instruct$`), "qwen/qwen3-30b-a3b"},
	{regexp.MustCompile(`^qwq-32b$`), "qwen/qwen2.5-32b"},
	{regexp.MustCompile(`^lfm2-(350m|700m|1\.2b)$`), "liquidai/lfm2-${1}"},
	{regexp.MustCompile(`^phi-4(?:-reasoning|-reasoning-plus)?$`), "microsoft/phi-4"},
	{regexp.MustCompile(`^tinyllama[-_]v1\.1$`), "tinyllama/tinyllama-1.1b-chat-v1.0"},
	// The Python variants of 7B and 13B have Llama 2's vocabulary; the others have 16 tokens more, as the base has.
	{regexp.MustCompile(`^codellama-(7|13)b-python-hf$`), "meta-llama/llama-2-${1}b-hf"},
	{regexp.MustCompile(`^codellama-34b-python-hf$`), "codellama/codellama-34b-hf"},
	{regexp.MustCompile(`^codellama-(7|13|34)b-instruct-hf$`), "codellama/codellama-${1}b-hf"},
	{regexp.MustCompile(`^llama-(7|13|30|65)b-hf$`), "huggyllama/llama-${1}b"},
	{regexp.MustCompile(`^deepcoder-14b-preview$`), "qwen/qwen2.5-14b"},
	{regexp.MustCompile(`^cogito-v1-preview-llama-3b$`), "meta-llama/llama-3.2-3b"},
	{regexp.MustCompile(`^cogito-v1-preview-llama-(8|70)b$`), "meta-llama/llama-3.1-${1}b"},
	{regexp.MustCompile(`^cogito-v1-preview-qwen-(14|32)b$`), "qwen/qwen2.5-${1}b"},
	{regexp.MustCompile(`^devstral-small-25(?:05|07)$`), "mistralai/mistral-small-24b-instruct-2501"},
	{regexp.MustCompile(`^tinyllama(?:-1\.1b-.*)?$`), "tinyllama/tinyllama-1.1b-chat-v1.0"},
	{regexp.MustCompile(`^qwen3\.5-(0\.8|2|4|9)b(?:-base)?$`), "qwen/qwen3.5-${1}b"},
	{regexp.MustCompile(`^qwen3\.[568]-27b$`), "qwen/qwen3.5-27b"},
	{regexp.MustCompile(`^qwen3\.[56]-35b-a3b(?:-base)?$`), "qwen/qwen3.5-35b-a3b"},
	{regexp.MustCompile(`^qwen3\.5-(122b-a10b|397b-a17b)$`), "qwen/qwen3.5-${1}"},
	{regexp.MustCompile(`^qwen3-(?:next-80b-a3b-(?:instruct|thinking)|coder-next)$`),
		"qwen/qwen3-next-80b-a3b-instruct"},
	{regexp.MustCompile(`^qwen3-coder-480b-a35b-instruct$`), "qwen/qwen3-coder-480b-a35b-instruct"},
	{regexp.MustCompile(`^gemma-4-(e2b|e4b|31b)(?:-it)?$`), "google/gemma-4-${1}-it"},
	{regexp.MustCompile(`^ministral-3-(3|8|14)b-(?:base|instruct|reasoning)-2512$`),
		"mistralai/ministral-3-${1}b-base-2512"},
	{regexp.MustCompile(`^mistral-small-3\.(?:1-24b-(?:base|instruct)-2503|2-24b-instruct-2506)$`),
		"mistralai/mistral-small-3.1-24b-instruct-2503"},
	{regexp.MustCompile(`^devstral-small-2-24b-instruct-2512$`), "mistralai/devstral-small-2-24b-instruct-2512"},
	{regexp.MustCompile(`^glm-4\.7-flash$`), "zai-org/glm-4.7-flash"},
	{regexp.MustCompile(`^glm-4\.[567]$`), "zai-org/glm-4.5"},
	{regexp.MustCompile(`^glm-4\.5-air$`), "zai-org/glm-4.5-air"},
	{regexp.MustCompile(`^minimax-m2(?:\.[157])?$`), "minimaxai/minimax-m2"},
	{regexp.MustCompile(`^olmo-3-7b-(?:instruct|think)$`), "allenai/olmo-3-1025-7b"},
	{regexp.MustCompile(`^olmo-3(?:-32b-think|\.1-32b-(?:instruct|think))$`), "allenai/olmo-3-1125-32b"},
	{regexp.MustCompile(`^granite-4\.0-(350m|1b)(?:-base)?$`), "ibm-granite/granite-4.0-${1}"},
	{regexp.MustCompile(`^granite-4\.0-micro(?:-base)?$`), "ibm-granite/granite-4.0-micro-base"},
	{regexp.MustCompile(`^lfm2\.5-1\.2b-(?:base|instruct|thinking)$`), "liquidai/lfm2-1.2b"},
	{regexp.MustCompile(`^gpt-oss-(20|120)b$`), "openai/gpt-oss-${1}b"},
}

// storedAs are suffixes that say how a checkpoint is stored, and nothing of the model's shapes.
var storedAs = []string{"-unsloth-bnb-4bit", "-bnb-4bit", "-bf16"}

// mirrorOrganisations publish other organisations' models under the same names. Names of other organisations are their
// own models, whatever they are called.
var mirrorOrganisations = map[string]bool{
	"unsloth": true, "nousresearch": true, "meta-llama": true, "qwen": true, "google": true, "mistralai": true,
	"eleutherai": true, "microsoft": true, "lmsys": true,
	"huggingfaceh4": true, "deepseek-ai": true, "tinyllama": true, "openai": true, "openlm-research": true,
	"01-ai": true, "allenai": true, "bigscience": true,
	"huggingfacetb": true, "alignment-handbook": true, "codellama": true, "decapoda-research": true,
	"agentica-org": true, "deepcogito": true,
}

// mirrorOf is the key of the model that a key means by one of the rules, or "".
func mirrorOf(key string) string {
	organisation, name, ok := strings.Cut(key, "/")
	if !ok || !mirrorOrganisations[organisation] {
		return ""
	}
	if organisation == "unsloth" {
		for _, suffix := range storedAs {
			if short, cut := strings.CutSuffix(name, suffix); cut {
				name = short
				break
			}
		}
	}
	return mirrorNamed(name)
}

// mirrorNamed is the key of the model that a name without its organisation means by one of the rules, or "".
func mirrorNamed(name string) string {
	for _, m := range mirrors {
		if at := m.name.FindStringSubmatchIndex(name); at != nil {
			return string(m.name.ExpandString(nil, m.model, name, at))
		}
	}
	return ""
}

// firstDigit is where the first word of a name turns into a number, with a hyphen or without.
var firstDigit = regexp.MustCompile(`^([a-z]+)(-?)([0-9])`)

// spoken are the names, without an organisation, that somebody may mean who leaves out how a model was tuned, or a
// hyphen in front of its number: llama3-8b is llama-3-8b, and qwen2.5-vl-7b qwen2.5-vl-7b-instruct, since tuning
// changes no size.
func spoken(key string) []string {
	if strings.Contains(key, "/") {
		return nil
	}
	names := []string{key}
	if m := firstDigit.FindStringSubmatch(key); m != nil {
		hyphen := "-"
		if m[2] != "" {
			hyphen = ""
		}
		names = append(names, m[1]+hyphen+key[len(m[1])+len(m[2]):])
	}
	for _, name := range names[:len(names):len(names)] {
		names = append(names, name+"-instruct", name+"-it")
	}
	return names
}
