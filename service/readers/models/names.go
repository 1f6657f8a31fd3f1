// Package models knows models by their names, their folders and their configurations: which are read, in which type
// they are stored, whether they see pictures.
package models

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// otherModels are kinds of models that no reader turns into a job, by what their names say.
var otherModels = []struct {
	kind string
	name *regexp.Regexp
	// instead is what to use for it.
	instead string
}{
	{"a vision-language model",
		regexp.MustCompile(`(?i)(^|[-_/.\d])(vl|vlm)([-_.\d]|$)|llava|vision|pixtral|idefics|paligemma|internvl|minicpm-v|smolvlm|blip|florence|cogvlm|molmo|omni\b|multimodal`), sayVisionLanguage},
	{"a diffusion model", regexp.MustCompile(`(?i)stable-diffusion|sdxl|\bflux\b|FLUX\.|hunyuanvideo|wan2\.|cogvideo|pixart|kandinsky`), ""},
	{"a model of speech and text", regexp.MustCompile(`(?i)qwen2?-?audio|speecht5|ultravox`), ""},
}

// localFirst are first parts of paths that are directories rather than the names of organisations.
var localFirst = setting.SetOf("models", "model", "checkpoints", "checkpoint", "ckpt", "ckpts", "output", "outputs", "out",
	"saves", "pretrained", "pretrained_models", "weights", "data", "results", "runs", "exp", "local", "cache")

// Of reads which model a value names.
func Of(l *launch.Launch, d *draft.Draft, v setting.Value) {
	if v.Unknown != "" {
		d.Ask("/model", "Which model is trained?", fmt.Sprintf("%s: %s", v.Origin.At.Where(), v.Unknown))
		return
	}
	name := strings.TrimSuffix(strings.TrimSpace(v.String()), "/")
	known := l.Files.Source.HasModel
	if known == nil || !known(name) {
		for _, other := range otherModels {
			if other.name.MatchString(name) {
				d.Refuse("model-kind", v.Origin.At, "%s is %s, a kind that the readers do not turn into a job%s", name,
					other.kind, other.instead)
				return
			}
		}
	}
	if isLocal(name) {
		localModel(l, d, name, v)
		return
	}
	// a directory of that name wins over the Hub (huggingface_hub and transformers utils/hub.py: os.path.isdir)
	if full, text, err := l.Open(path.Join(name, "config.json")); err == nil &&
		full == path.Join(l.Dir, name, "config.json") {
		if config, ok := jobdoc.Configuration(text); ok {
			d.Put("/model/hf_config", config, v)
			return
		}
	}
	if find := l.Files.Source.Configuration; find != nil && known != nil && !known(name) {
		if text, from := find(name); text != nil {
			if config, ok := jobdoc.Configuration(text); ok {
				d.Put("/model/hf_config", config, v)
				d.Assume("/model/hf_config", "%s is what %s says", name, from)
				return
			}
		}
	}
	if !strings.Contains(name, "/") && known != nil && !known(name) {
		d.Ask("/model", fmt.Sprintf("What is %s? Give its config.json.", name), v.Origin.At.Where()+
			" names it, and the catalog has no such model")
		return
	}
	d.Put("/model/preset", name, v)
	if known != nil && !known(name) {
		d.Ask("/model", fmt.Sprintf("The catalog has no %s: give its config.json.", name), v.Origin.At.Where()+
			" names it")
	}
}

// localModel looks for the config.json of a directory.
func localModel(l *launch.Launch, d *draft.Draft, name string, v setting.Value) {
	if !isPlaceholder(name) {
		full, text, err := l.Open(path.Join(name, "config.json"))
		if config, ok := jobdoc.Configuration(text); err == nil && ok &&
			(name == "." || path.Base(path.Dir(full)) == path.Base(name)) {
			d.Put("/model/hf_config", config, v)
			return
		}
	}
	why := v.Origin.At.Where() + " names a directory whose config.json is not there"
	ask := fmt.Sprintf("What is in %s? Give its config.json.", name)
	if base := path.Base(name); l.Files.Source.HasModel != nil && !isPlaceholder(name) &&
		l.Files.Source.HasModel(base) {
		ask = fmt.Sprintf("Is %s the model %s? Say it with --set model=%s, or give its config.json.", name, base, base)
	}
	d.Ask("/model", ask, why)
}

var placeholder = regexp.MustCompile(`(?i)path[/_-]?to|^<|>$|\{\{|\$\{|\$[A-Z]|your[-_ ]|^xxx|\?\?\?`)

func isPlaceholder(name string) bool { return placeholder.MatchString(name) }

// isLocal reports whether a name is a path and no name on the Hub.
func isLocal(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return name == "" || strings.HasPrefix(name, "/") || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "~") ||
		strings.Count(name, "/") > 1 ||
		isPlaceholder(name) || strings.Contains(name, "/") && localFirst[strings.ToLower(first)]
}

// sayVisionLanguage is where a model with pictures can be said.
const sayVisionLanguage = ": say it in flags (vramplan estimate --objective vision-language --image-size H,W " +
	"--micro-batch N --sequence-length N --model NAME, or --hf-config FILE) or in a job document " +
	"(training.objective.kind vision-language)"
