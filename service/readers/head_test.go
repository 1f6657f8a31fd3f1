package readers_test

import (
	"testing"

	"github.com/vramplan/vramplan/service/readers"
)

// TestHeads is what stands on top of the model that a program loads.
func TestHeads(t *testing.T) {
	program := func(class, more string) string {
		return `from transformers import *
model = ` + class + `.from_pretrained("google-bert/bert-base-uncased"` + more + `)
x = tokenizer(text, max_length=128)
Trainer(model=model, args=TrainingArguments(output_dir="out", per_device_train_batch_size=16)).train()
`
	}
	const kind, labels = "/model/head/kind", "/model/head/labels"
	for _, c := range []scriptCase{
		{name: "sequences", program: program("AutoModelForSequenceClassification", ", num_labels=3"),
			want: map[string]string{kind: `"classification"`, labels: "3"}},
		{name: "a family's class", program: program("BertForSequenceClassification", ""),
			want: map[string]string{kind: `"classification"`, labels: ""}},
		{name: "labels that nobody knows", program: program("AutoModelForSequenceClassification",
			", num_labels=len(names)"), want: map[string]string{kind: `"classification"`, labels: ""}},
		{name: "tokens", program: program("AutoModelForTokenClassification", ", num_labels=9"),
			want: map[string]string{kind: `"token-classification"`, labels: "9"}},
		{name: "answers", program: program("AutoModelForQuestionAnswering", ""),
			want: map[string]string{kind: `"question-answering"`}},
		{name: "masked words", program: program("AutoModelForMaskedLM", ""),
			want: map[string]string{kind: `"masked-lm"`}},
		{name: "the next word", program: program("AutoModelForCausalLM", ""), want: map[string]string{kind: ""}},
		{name: "from sequence to sequence", program: program("AutoModelForSeq2SeqLM", ""),
			want: map[string]string{kind: ""}},
		{name: "choices", program: program("AutoModelForMultipleChoice", ""), asks: []string{"/model/head/choices"},
			says: "How many answers", want: map[string]string{kind: `"multiple-choice"`}},
		{name: "an example of choices", command: "python run_swag.py --do_train --model_name_or_path " +
			"google-bert/bert-base-uncased --per_device_train_batch_size 32 --max_seq_length 128",
			want: map[string]string{kind: `"multiple-choice"`, "/model/head/choices": "4"}},
		{name: "pictures, which have no length", program: `from transformers import *
model = ViTForImageClassification.from_pretrained("google/vit-base-patch16-224", num_labels=3)
Trainer(model=model, args=TrainingArguments(output_dir="out", per_device_train_batch_size=16)).train()
`, want: map[string]string{kind: `"classification"`, labels: "3", "/training/sequence_length": ""}},
		{name: "an example of pictures", command: "python run_image_classification.py --do_train --model_name_or_path " +
			"google/vit-base-patch16-224 --per_device_train_batch_size 32",
			want: map[string]string{kind: `"classification"`, "/training/sequence_length": ""}},
		{name: "pictures with holes", program: program("ViTForMaskedImageModeling", ""),
			refused: "ViTForMaskedImageModeling"},
		{name: "speech, whose sequence is what was said", program: `from transformers import *
model = WhisperForConditionalGeneration.from_pretrained("openai/whisper-small")
Seq2SeqTrainer(model=model, args=Seq2SeqTrainingArguments(output_dir="out", per_device_train_batch_size=16)).train()
`, asks: []string{"/training/sequence_length"}, says: "longest transcript"},
		{name: "the model is said otherwise, and its head stays", program: program("AutoModelForTokenClassification", ""),
			set: []readers.Said{{Path: "model", Value: "distilbert/distilbert-base-uncased"}},
			want: map[string]string{"/model/preset": `"distilbert/distilbert-base-uncased"`,
				kind: `"token-classification"`}},
		{name: "a reward has its own", program: `from trl import RewardConfig, RewardTrainer
model = AutoModelForSequenceClassification.from_pretrained("Qwen/Qwen2.5-0.5B", num_labels=1)
RewardTrainer(model=model, args=RewardConfig(per_device_train_batch_size=2, max_length=512)).train()
`, want: map[string]string{kind: "", "/training/objective/kind": `"reward"`}},
		{name: "an example", command: "python run_glue.py --do_train --model_name_or_path google-bert/bert-base-uncased " +
			"--per_device_train_batch_size 32 --max_seq_length 128", want: map[string]string{kind: `"classification"`}},
		{name: "an example of masked words", command: "python run_mlm.py --do_train --model_name_or_path " +
			"google-bert/bert-base-uncased --per_device_train_batch_size 32 --max_seq_length 128",
			want: map[string]string{kind: `"masked-lm"`}},
	} {
		t.Run(c.name, c.run)
	}
}
