package service_test

import (
	"testing"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// TestQuick: what a portal asks is quick; what plays for long or answers megabytes is not.
func TestQuick(t *testing.T) {
	s := service.New(service.EmbeddedCatalog())
	for name, tt := range map[string]struct {
		job  string
		o    service.EstimateOptions
		want bool
	}{
		"GPT-2, 32 micro-steps": {job: `{"model":{"preset":"gpt2"},"training":{"micro_batch":16,"sequence_length":1024,
			"gradient_accumulation":32},"gpus":["rtx-4070"]}`, want: true},
		"an 8B Llama, 64 micro-steps": {job: `{"model":{"preset":"meta-llama/Llama-3.1-8B"},"training":{"micro_batch":1,
			"sequence_length":2048,"gradient_accumulation":64},"gpus":["rtx-4090"]}`, want: true},
		"a name that nothing has": {job: `{"model":{"preset":"nobody/nothing"},"training":{"micro_batch":1}}`, want: true},
		"a job that is refused": {job: `{"model":{"preset":"gpt2"},"training":{"micro_batch":1,
			"sequence_length":1000000}}`, want: true},
		"with its timeline": {job: `{"model":{"preset":"gpt2"},"training":{"micro_batch":1}}`,
			o: service.EstimateOptions{Timeline: true}},
		"with its tensors": {job: `{"model":{"preset":"gpt2"},"training":{"micro_batch":1}}`,
			o: service.EstimateOptions{Tensors: true}},
		"every card": {job: `{"model":{"preset":"gpt2"},"training":{"micro_batch":16,"sequence_length":1024,
			"gradient_accumulation":32},"gpus":["*"]}`},
		"DeepSeek V3, whose experts are grouped": {job: `{"model":{"preset":"deepseek-ai/DeepSeek-V3"},"training":{
			"micro_batch":1,"sequence_length":2048}}`, want: true},
		"DeepSeek V3 with former releases": {job: `{"model":{"preset":"deepseek-ai/DeepSeek-V3"},"training":{
			"micro_batch":1,"sequence_length":2048,"versions":{"torch":"2.9.1","transformers":"4.57.6"}}}`},
	} {
		job, err := jobdoc.Decode([]byte(tt.job))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := s.Quick(t.Context(), job, tt.o); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}
