package model

import "sort"

// families are the model types that are described. Defaults: the configuration classes of transformers 4.57.
var families = byModelType(
	&albertFamily,
	&apertusFamily,
	&arceeFamily,
	&bartFamily,
	&bertFamily,
	&bloomFamily,
	&camemBERTFamily,
	&clipFamily,
	&cohereFamily,
	&cohere2Family,
	&debertaV2Family,
	&deepSeekV2Family,
	&deepSeekV3Family,
	&distilBERTFamily,
	&dots1Family,
	&electraFamily,
	&ernie45Family,
	&ernie45MoEFamily,
	&exaone4Family,
	&falconFamily,
	&gemmaFamily,
	&gemma2Family,
	&gemma3Family,
	&gemma3TextFamily,
	&gemma4TextFamily,
	&glmFamily,
	&glm4Family,
	&glm4MoEFamily,
	&glm4MoELiteFamily,
	&gpt2Family,
	&gptBigCodeFamily,
	&gptNeoFamily,
	&gptNeoXFamily,
	&gptOSSFamily,
	&gptJFamily,
	&graniteFamily,
	&graniteMoEFamily,
	&graniteHybridFamily,
	&graniteMoESharedFamily,
	&hunYuanFamily,
	&hunYuanMoEFamily,
	&internLM2Family,
	&lfm2Family,
	&lfm2MoEFamily,
	&llamaFamily,
	&llavaFamily,
	&mbartFamily,
	&miniMaxM2Family,
	&ministralFamily,
	&ministral3Family,
	&mistralFamily,
	&mixtralFamily,
	&modernBERTFamily,
	&mpnetFamily,
	&mptFamily,
	&mt5Family,
	&nemotronFamily,
	&olmoFamily,
	&olmo2Family,
	&olmo3Family,
	&olmoeFamily,
	&optFamily,
	&paliGemmaFamily,
	&phiFamily,
	&phi3Family,
	&qwen2Family,
	&qwen25VLFamily,
	&qwen2MoEFamily,
	&qwen2VLFamily,
	&qwen3Family,
	&qwen35MoEFamily,
	&qwen35Family,
	&qwen3MoEFamily,
	&qwen3NextFamily,
	&robertaFamily,
	&seedOSSFamily,
	&smolLM3Family,
	&smolVLMFamily,
	&stableLMFamily,
	&starCoder2Family,
	&t5Family,
	&vitFamily,
	&whisperFamily,
	&xlmRoBERTaFamily,
)

// byModelType is a table of families.
func byModelType(all ...*family) map[string]*family {
	table := make(map[string]*family, len(all))
	for _, f := range all {
		table[f.modelType] = f
	}
	return table
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
