package tool

import (
	"path"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// objectives are kinds of training beside fine-tuning and pretraining, by the words of programs and files.
var objectives = regexp.MustCompile(`(?i)(^|[^a-z])(dpo|grpo|ppo|orpo|kto|simpo|cpo|rloo|ipo|bco|nash_md|xpo|gkd|prm|online_dpo|reinforce|rlhf|rft|reward|reward_model(?:ing)?|rm|distill\w*|embedding|reranker)([^a-z]|$)`)

// ObjectiveOf names the kind of training in a program's name, or "".
func ObjectiveOf(name string) string {
	m := objectives.FindStringSubmatch(strings.TrimSuffix(path.Base(name), path.Ext(name)))
	if m == nil || strings.HasPrefix(strings.ToLower(m[2]), "distill") {
		return ""
	}
	return strings.ToLower(m[2])
}

// RefuseObjective refuses a kind of training by its name.
func (r *Job) RefuseObjective(name string, at setting.Span) {
	r.Out.Refuse("objective", at, "%s is another kind of training than the next token's loss: what it holds besides the "+
		"trained model (a reference, rewards, generation) cannot be told from these files", strings.ToUpper(name))
}
