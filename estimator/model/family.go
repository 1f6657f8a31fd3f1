package model

import (
	"sort"

	"github.com/vramplan/vramplan/estimator/step"
)

// family is how one model_type is read, built and run. Each has a file of its own that mirrors the
// module of transformers it stands for; a new one is that file and its line in the table below.
type family struct {
	// classes are the ends of the names of the classes (architectures in a config.json) that build runs, the
	// first one where the file names none; nil for causal language models.
	classes []string
	// pooled are those of them that have a pooler.
	pooled []string
	// keys are what the checks call an architecture's numbers, by the keys that the user wrote.
	keys fieldNames
	// defaults are those of the configuration class, which hold where a config.json is silent.
	defaults map[string]any
	// ignored are keys that published files have and transformers' class does not: what they say is what it does
	// anyway, or is about parts that it does not build.
	ignored []string
	// read fills in the architecture from a config.json.
	read func(c *config, a *Architecture)
	// uncompiled says why torch.compile is not modelled for the family; empty where it is.
	uncompiled string
	// spelled are the configuration class's own names of what most call otherwise (plainNumbers).
	spelled map[string]string
	// numbers puts into a configuration what a catalog entry says in numbers of its own, and what all entries of the
	// family have in common where the class's defaults are otherwise; nil where the plain numbers say everything.
	numbers func(p *Preset, c map[string]any)
	// pictureTokens is how many tokens a picture of so many pixels takes, or why the model does not read it; nil for
	// models that read no pictures in their sequences.
	pictureTokens func(a *Architecture, height, width int64) (tokens int64, why string)
	// usualPictures completes what a job leaves open of the pictures of a sequence, which have room for so many tokens,
	// and says where that is from; nil where one picture of the tower's own size is what a sequence has.
	usualPictures func(a *Architecture, p Pictures, room int64) (usual Pictures, why string)
	// withoutTower is transformers' class that is the text model alone of what a file with a tower holds; empty where
	// there is none.
	withoutTower string
	// build declares the parameters and buffers in the order of the module's children and returns the model
	// that uses them. It may be called often and must not change the architecture.
	build func(b *builder) step.Network
}

// causalLM are the classes of decoders.
var causalLM = []string{classCausalLM, classLMHead}

type fieldNames struct{ heads, hidden, kv, dim string }

// The names that most configuration classes use.
var commonKeys = fieldNames{heads: "num_attention_heads", hidden: "hidden_size", kv: "num_key_value_heads",
	dim: "head_dim"}

// families are the model types that are described. Defaults: the configuration classes of transformers 4.57.
var families = map[string]*family{
	"albert":           &albertFamily,
	"apertus":          &apertusFamily,
	"arcee":            &arceeFamily,
	"bart":             &bartFamily,
	"bert":             &bertFamily,
	"bloom":            &bloomFamily,
	"clip":             &clipFamily,
	"cohere":           &cohereFamily,
	"cohere2":          &cohere2Family,
	"deberta-v2":       &debertaV2Family,
	"deepseek_v2":      &deepSeekV2Family,
	"deepseek_v3":      &deepSeekV3Family,
	"distilbert":       &distilBERTFamily,
	"exaone4":          &exaone4Family,
	"falcon":           &falconFamily,
	"gemma":            &gemmaFamily,
	"gemma2":           &gemma2Family,
	"gemma3":           &gemma3Family,
	"gemma3_text":      &gemma3TextFamily,
	"gemma4_text":      &gemma4TextFamily,
	"glm":              &glmFamily,
	"glm4":             &glm4Family,
	"glm4_moe":         &glm4MoEFamily,
	"glm4_moe_lite":    &glm4MoELiteFamily,
	"gpt2":             &gpt2Family,
	"gpt_bigcode":      &gptBigCodeFamily,
	"gpt_neox":         &gptNeoXFamily,
	"gpt_oss":          &gptOSSFamily,
	"gptj":             &gptJFamily,
	"granite":          &graniteFamily,
	"granitemoe":       &graniteMoEFamily,
	"granitemoehybrid": &graniteHybridFamily,
	"granitemoeshared": &graniteMoESharedFamily,
	"hunyuan_v1_dense": &hunYuanFamily,
	"hunyuan_v1_moe":   &hunYuanMoEFamily,
	"internlm2":        &internLM2Family,
	"lfm2":             &lfm2Family,
	"lfm2_moe":         &lfm2MoEFamily,
	"llama":            &llamaFamily,
	"llava":            &llavaFamily,
	"mbart":            &mbartFamily,
	"minimax_m2":       &miniMaxM2Family,
	"mistral":          &mistralFamily,
	"mixtral":          &mixtralFamily,
	"modernbert":       &modernBERTFamily,
	"mt5":              &mt5Family,
	"mpnet":            &mpnetFamily,
	"mpt":              &mptFamily,
	"olmo":             &olmoFamily,
	"olmo2":            &olmo2Family,
	"olmoe":            &olmoeFamily,
	"olmo3":            &olmo3Family,
	"opt":              &optFamily,
	"paligemma":        &paliGemmaFamily,
	"phi":              &phiFamily,
	"phi3":             &phi3Family,
	"qwen2":            &qwen2Family,
	"qwen2_moe":        &qwen2MoEFamily,
	"qwen2_5_vl":       &qwen25VLFamily,
	"qwen2_vl":         &qwen2VLFamily,
	"qwen3":            &qwen3Family,
	"qwen3_moe":        &qwen3MoEFamily,
	"qwen3_5_moe_text": &qwen35MoEFamily,
	"qwen3_5_text":     &qwen35Family,
	"qwen3_next":       &qwen3NextFamily,
	"roberta":          &robertaFamily,
	"seed_oss":         &seedOSSFamily,
	"smollm3":          &smolLM3Family,
	"smolvlm":          &smolVLMFamily,
	"stablelm":         &stableLMFamily,
	"starcoder2":       &starCoder2Family,
	"t5":               &t5Family,
	"whisper":          &whisperFamily,
	"vit":              &vitFamily,
	"gpt_neo":          &gptNeoFamily,
	"electra":          &electraFamily,
	"dots1":            &dots1Family,
	"camembert":        &camemBERTFamily,
	"xlm-roberta":      &xlmRoBERTaFamily,
	"nemotron":         &nemotronFamily,
	"ministral3":       &ministral3Family,
	"ministral":        &ministralFamily,
	"ernie4_5":         &ernie45Family,
	"ernie4_5_moe":     &ernie45MoEFamily,
}

// Families lists the model types that FromHF understands.
func Families() []string {
	names := make([]string, 0, len(families))
	for n := range families {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}
