package readers

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/jobdoc"
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
var localFirst = set("models", "model", "checkpoints", "checkpoint", "ckpt", "ckpts", "output", "outputs", "out",
	"saves", "pretrained", "pretrained_models", "weights", "data", "results", "runs", "exp", "local", "cache")

// model reads which model is trained.
func (r *reading) model(keys ...string) {
	v, ok := r.s.Get(keys...)
	if !ok {
		r.d.ask("/model", "Which model is trained?", "nothing names it")
		return
	}
	modelOf(r.launch, r.d, v)
}

// modelOf reads which model a value names.
func modelOf(l *launch, d *draft, v setting.Value) {
	if v.Unknown != "" {
		d.ask("/model", "Which model is trained?", fmt.Sprintf("%s: %s", v.Origin.At.Where(), v.Unknown))
		return
	}
	name := strings.TrimSuffix(strings.TrimSpace(v.String()), "/")
	known := l.files.source.HasModel
	if known == nil || !known(name) {
		for _, other := range otherModels {
			if other.name.MatchString(name) {
				d.refuse("model-kind", v.Origin.At, "%s is %s, a kind that the readers do not turn into a job%s", name,
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
	if full, text, err := l.open(path.Join(name, "config.json")); err == nil &&
		full == path.Join(l.dir, name, "config.json") {
		if config, ok := jobdoc.Configuration(text); ok {
			d.put("/model/hf_config", config, v)
			return
		}
	}
	if !strings.Contains(name, "/") && known != nil && !known(name) {
		d.ask("/model", fmt.Sprintf("What is %s? Give its config.json.", name), v.Origin.At.Where()+
			" names it, and the catalog has no such model")
		return
	}
	d.put("/model/preset", name, v)
	if known != nil && !known(name) {
		d.ask("/model", fmt.Sprintf("The catalog has no %s: give its config.json.", name), v.Origin.At.Where()+
			" names it")
	}
}

// localModel looks for the config.json of a directory.
func localModel(l *launch, d *draft, name string, v setting.Value) {
	if !isPlaceholder(name) {
		full, text, err := l.open(path.Join(name, "config.json"))
		if config, ok := jobdoc.Configuration(text); err == nil && ok &&
			(name == "." || path.Base(path.Dir(full)) == path.Base(name)) {
			d.put("/model/hf_config", config, v)
			return
		}
	}
	why := v.Origin.At.Where() + " names a directory whose config.json is not there"
	ask := fmt.Sprintf("What is in %s? Give its config.json.", name)
	if base := path.Base(name); l.files.source.HasModel != nil && !isPlaceholder(name) &&
		l.files.source.HasModel(base) {
		ask = fmt.Sprintf("Is %s the model %s? Say it with --set model=%s, or give its config.json.", name, base, base)
	}
	d.ask("/model", ask, why)
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
