package webtest

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

const qlora = `base_model: mistralai/Mistral-7B-v0.1
load_in_4bit: true
adapter: qlora
lora_r: 16
lora_target_linear: true
micro_batch_size: 2
gradient_accumulation_steps: 4
sequence_len: 4096
optimizer: paged_adamw_8bit
bf16: auto
gradient_checkpointing: true
`

// drop drops a file on the page.
func drop(p *tab, name, text string) {
	p.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		p.Fatal(err)
	}
	eval[chromedp.Void](p, fmt.Sprintf(`{
		const data = new DataTransfer();
		data.items.add(new File([%s], %q));
		dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
	}`, quoted, name))
}

// outOfMemory is what a run of the page's example leaves behind on its card.
const outOfMemory = `torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.07 GiB. GPU 0 has a total capacity of ` +
	`11.71 GiB of which 620.69 MiB is free. Including non-PyTorch memory, this process has 11.02 GiB memory in use. Of the ` +
	`allocated memory 10.20 GiB is allocated by PyTorch, and 320.00 MiB is reserved by PyTorch but unallocated.`

// TestLogsAreExplained: an out-of-memory message is explained for the job in the form, which stays as it is.
func TestLogsAreExplained(t *testing.T) {
	p := open(t, desktop, "")
	before := p.job()
	drop(p, "train.log", outOfMemory)
	p.says("#diagnosis", "logits, 16 × 1024 × 50304 × 4 B = 3.07 GiB")
	p.says("#diagnosis", "Use a smaller micro-batch")
	if after := p.job(); after != before {
		t.Errorf("the job is %s, and was %s", after, before)
	}
	p.click("#put-away")
	p.wait(`document.getElementById("section-diagnosis").hidden`)
}

// TestSnapshotsAreExplained: a memory snapshot is explained by the names of the job in the form, which stays as it is;
// no width is too small for it. Of a run whose job nobody gave its lines are told.
func TestSnapshotsAreExplained(t *testing.T) {
	folder, err := filepath.Abs(filepath.Join("..", "..", "service", "testdata", "snapshots"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := os.ReadFile(filepath.Join(folder, "leak.json"))
	if err != nil {
		t.Fatal(err)
	}
	upload := func(p *tab, file string) {
		p.Helper()
		p.do("open a snapshot", chromedp.SetUploadFiles(chromedp.ID("file"), []string{file}))
	}
	packed, err := os.Open(filepath.Join(folder, "leak.pickle.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "leak.pickle")
	if err := os.WriteFile(plain, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, l := range map[string]look{plain: {1440, 900, "light"}, filepath.Join(folder, "leak.pickle.gz"): {360, 800, "dark"}} {
		p := open(t, l, hashOf(string(job)))
		before := p.job()
		upload(p, file)
		p.says("#diagnosis", "the replay of the job in the form has")
		p.says("#diagnosis", "3 of 3.6 MiB: no step of the job asks for this size, asked for at /home/user/snapshots.py:28 step")
		p.says("#title-diagnosis", "What held the memory")
		if rows := eval[int](p, `document.querySelectorAll("#diagnosis tbody tr").length`); rows < 8 {
			t.Errorf("%d rows are drawn", rows)
		}
		if wide := eval[int](p, `document.documentElement.scrollWidth`); wide > int(l.width) {
			t.Errorf("the page is %d px wide, more than the %d of the window", wide, l.width)
		}
		if after := p.job(); after != before {
			t.Errorf("the job is %.200s, and was %.200s", after, before)
		}
		accessible(p, axeScript(t))
	}

	p := open(t, desktop, "")
	upload(p, filepath.Join(folder, "oom.pickle.gz"))
	p.says("#diagnosis", "were held when the last request failed")
	p.says("#diagnosis", "sdpa_attention.py:193")
	if said := p.text("#diagnosis"); strings.Contains(said, "replay of the job in the form") {
		t.Errorf("it is held against the page's example: %s", said)
	}
	evil := filepath.Join(t.TempDir(), "evil.pickle")
	if err := os.WriteFile(evil, []byte("\x80\x04cos\nsystem\n(S'touch owned'\ntR."), 0o600); err != nil {
		t.Fatal(err)
	}
	upload(p, evil)
	p.says("#sentence", "evil.pickle")
	p.says("#problem", "nothing of it was run")
}

// TestTrainersFilesAreRead: a configuration of a trainer, opened, dropped or pasted, is the job in the form.
func TestTrainersFilesAreRead(t *testing.T) {
	has := func(p *tab, want ...string) {
		t.Helper()
		p.says("#versions", "Mistral-7B")
		for _, part := range append(want, `"base_precision":"nf4"`, `"gradient_accumulation":4`,
			`"gpus":["rtx-4090"]`) {
			if got := p.job(); !strings.Contains(got, part) {
				t.Errorf("the job is %s, without %s", got, part)
			}
		}
		if value := eval[string](p, `document.getElementById("f-training-micro_batch").value`); value != "2" {
			t.Errorf("the form's micro-batch is %s", value)
		}
	}

	opened := open(t, desktop, hashOf(gpt4090))
	file := filepath.Join(t.TempDir(), "qlora.yml")
	if err := os.WriteFile(file, []byte(qlora), 0o600); err != nil {
		t.Fatal(err)
	}
	opened.do("open a file", chromedp.SetUploadFiles(chromedp.ID("file"), []string{file}))
	has(opened, `"framework":"axolotl"`)
	opened.says("#state", "Read from qlora.yml (axolotl)")

	dropped := open(t, desktop, hashOf(gpt4090))
	drop(dropped, "qlora.yml", qlora)
	has(dropped)

	pasted := open(t, desktop, hashOf(gpt4090))
	text, err := json.Marshal(qlora)
	if err != nil {
		t.Fatal(err)
	}
	paste(pasted, string(text))
	pasted.says("#versions", "Mistral-7B")
	eval[chromedp.Void](pasted, `document.getElementById("document-text").blur()`)
	has(pasted)
}

// paste writes into the document, as a paste does.
func paste(p *tab, text string) {
	p.Helper()
	eval[chromedp.Void](p, fmt.Sprintf(`{
		document.getElementById("document").open = true;
		const area = document.getElementById("document-text");
		area.focus();
		area.value = %s;
		area.dispatchEvent(new Event("input"));
	}`, text))
}

// TestLaunchLinesAndTOML: texts without a name are told apart by what they look like.
func TestLaunchLinesAndTOML(t *testing.T) {
	p := open(t, desktop, hashOf(gpt4090))
	paste(p, `"torchrun --nproc_per_node=1 train.py --model_name_or_path openai-community/gpt2 --per_device_train_batch_size 4 --block_size 1024 --bf16"`)
	p.wait(`document.getElementById("f-training-micro_batch").value === "4"`)
	p.settled()
	p.says("#versions", "gpt2")

	p = open(t, desktop, hashOf(gpt4090))
	paste(p, `"[model]\nname = \"llama3\"\nflavor = \"8B\"\n\n[training]\nlocal_batch_size = 1\nseq_len = 2048\n"`)
	p.wait(`document.getElementById("f-training-sequence_length").value === "2048"`)
	p.wait(`document.getElementById("f-model-preset").value === "meta-llama/Llama-3.1-8B"`)
}

// TestQuestionsStandAtTheirFields: what a file does not say is asked where the answer is typed, and the job is answered
// once it is there.
func TestQuestionsStandAtTheirFields(t *testing.T) {
	p := open(t, desktop, hashOf(gpt4090))
	text, err := json.Marshal(strings.Replace(qlora, "mistralai/Mistral-7B-v0.1", "someorg/unknown-7b", 1))
	if err != nil {
		t.Fatal(err)
	}
	paste(p, string(text))
	p.wait(`document.querySelectorAll("#job .error:not([hidden])").length > 0`)
	if said := eval[string](p,
		`[...document.querySelectorAll("#job .error:not([hidden])")].map((e) => e.closest("[data-pointer]").dataset.pointer + " " + e.textContent).join(" / ")`); !strings.HasPrefix(said, "/model") || !strings.Contains(said, "someorg/unknown-7b") {
		t.Errorf("at the fields stands %q", said)
	}
	p.says("#sentence", "No answer to this job yet")
	p.click(`label:has(#way-preset)`)
	p.set("f-model-preset", "mistralai/Mistral-7B-v0.1")
	eval[chromedp.Void](p, `document.getElementById("f-model-preset").dispatchEvent(new Event("change"))`)
	p.do("leave the field", chromedp.KeyEvent("\r"))
	p.says("#versions", "Mistral-7B")

	// What is refused is said with the reader's words, and the job stays as it was.
	p = open(t, desktop, hashOf(gpt4090))
	paste(p, `"base_model: mistralai/Mistral-7B-v0.1\nadapter: qlora\nmicro_batch_size: 2\nsequence_len: 2048\n"`)
	p.says("#document-error", "load_in_4bit")
	if !eval[bool](p, `location.hash.includes("gpt2")`) {
		t.Error("the job is another after a file was refused")
	}
}

// TestRecordingsAreDropped: a recording, dropped or opened, is the model of the job in the form, and is answered.
func TestRecordingsAreDropped(t *testing.T) {
	file := filepath.Join("..", "..", "estimator", "testdata", "recordings", "llama-amp.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	has := func(p *tab) {
		t.Helper()
		p.wait(`document.getElementById("way-recorded").checked`)
		p.says("[data-pointer='/training/sequence_length']", "a recording does not say how long its sequences are")
		p.set("f-training-sequence_length", "256")
		if got := p.text("#recorded-words"); !strings.HasPrefix(got, "LlamaForCausalLM · 3 × model.layers · torch 2.15.0") {
			t.Errorf("the recording is described as %q", got)
		}
		if got := p.job(); !strings.Contains(got, `"model":{"recorded":{`) || !strings.Contains(got, `"gpus":["rtx-4090"]`) {
			t.Errorf("the job is %.200s", got)
		}
		p.wait(`document.getElementById("problem").hidden`)
		p.says("#versions", "LlamaForCausalLM")
	}

	dropped := open(t, desktop, hashOf(gpt4090))
	eval[chromedp.Void](dropped, fmt.Sprintf(`{
		const data = new DataTransfer();
		data.items.add(new File([JSON.stringify(%s)], "llama.json"));
		dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
	}`, text))
	has(dropped)

	opened := open(t, desktop, hashOf(gpt4090))
	opened.click(`label:has(#way-recorded)`)
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	opened.do("open a recording", chromedp.SetUploadFiles(chromedp.ID("recorded-file"), []string{path}))
	has(opened)
}
