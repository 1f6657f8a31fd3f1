// Package pictures has the models that look at pictures: classifiers (ViT), those that compare pictures with texts
// (CLIP), decoders that read pictures among their tokens (LLaVA, PaliGemma, Gemma 3, Qwen2-VL, SmolVLM), and the
// towers that are loaded beside a text model and stay idle on text.
package pictures
