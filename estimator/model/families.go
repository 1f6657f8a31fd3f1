package model

import (
	"sort"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/model/encoderdecoders"
	"github.com/vramplan/vramplan/estimator/model/encoders"
	"github.com/vramplan/vramplan/estimator/model/hybrids"
	"github.com/vramplan/vramplan/estimator/model/mixtures"
	"github.com/vramplan/vramplan/estimator/model/pictures"
)

// families are the model types that are described. Defaults: the configuration classes of transformers 4.57.
var families = byModelType(
	&encoders.ALBERTFamily,
	&decoders.ApertusFamily,
	&decoders.ArceeFamily,
	&encoderdecoders.BARTFamily,
	&encoders.BERTFamily,
	&decoders.BloomFamily,
	&encoders.CamemBERTFamily,
	&pictures.CLIPFamily,
	&decoders.CohereFamily,
	&decoders.Cohere2Family,
	&encoders.DebertaV2Family,
	&mixtures.DeepSeekV2Family,
	&mixtures.DeepSeekV3Family,
	&encoders.DistilBERTFamily,
	&mixtures.Dots1Family,
	&encoders.ELECTRAFamily,
	&decoders.Ernie45Family,
	&mixtures.Ernie45MoEFamily,
	&decoders.Exaone4Family,
	&decoders.FalconFamily,
	&decoders.GemmaFamily,
	&decoders.Gemma2Family,
	&pictures.Gemma3Family,
	&decoders.Gemma3TextFamily,
	&hybrids.Gemma4TextFamily,
	&decoders.GLMFamily,
	&decoders.GLM4Family,
	&mixtures.GLM4MoEFamily,
	&mixtures.GLM4MoELiteFamily,
	&decoders.GPT2Family,
	&decoders.GPTBigCodeFamily,
	&decoders.GPTNeoFamily,
	&decoders.GPTNeoXFamily,
	&mixtures.GPTOSSFamily,
	&decoders.GPTJFamily,
	&decoders.GraniteFamily,
	&mixtures.GraniteMoEFamily,
	&mixtures.GraniteHybridFamily,
	&mixtures.GraniteMoESharedFamily,
	&decoders.HunYuanFamily,
	&mixtures.HunYuanMoEFamily,
	&decoders.InternLM2Family,
	&hybrids.LFM2Family,
	&hybrids.LFM2MoEFamily,
	&decoders.LlamaFamily,
	&pictures.LlavaFamily,
	&encoderdecoders.MBARTFamily,
	&mixtures.MiniMaxM2Family,
	&decoders.MinistralFamily,
	&decoders.Ministral3Family,
	&decoders.MistralFamily,
	&mixtures.MixtralFamily,
	&encoders.ModernBERTFamily,
	&encoders.MPNetFamily,
	&decoders.MPTFamily,
	&encoderdecoders.Mt5Family,
	&decoders.NemotronFamily,
	&decoders.OLMoFamily,
	&decoders.OLMo2Family,
	&decoders.OLMo3Family,
	&mixtures.OlmoeFamily,
	&decoders.OPTFamily,
	&pictures.PaliGemmaFamily,
	&decoders.PhiFamily,
	&decoders.Phi3Family,
	&decoders.Qwen2Family,
	&pictures.Qwen25VLFamily,
	&mixtures.Qwen2MoEFamily,
	&pictures.Qwen2VLFamily,
	&decoders.Qwen3Family,
	&hybrids.Qwen35MoEFamily,
	&hybrids.Qwen35Family,
	&mixtures.Qwen3MoEFamily,
	&hybrids.Qwen3NextFamily,
	&encoders.RobertaFamily,
	&decoders.SeedOSSFamily,
	&decoders.SmolLM3Family,
	&pictures.SmolVLMFamily,
	&decoders.StableLMFamily,
	&decoders.StarCoder2Family,
	&encoderdecoders.T5Family,
	&pictures.ViTFamily,
	&encoderdecoders.WhisperFamily,
	&encoders.XLMRoBERTaFamily,
)

// byModelType is a table of families.
func byModelType(all ...*arch.Family) map[string]*arch.Family {
	table := make(map[string]*arch.Family, len(all))
	for _, f := range all {
		table[f.ModelType] = f
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
