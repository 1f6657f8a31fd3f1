package submission

import (
	"encoding/json"
	"io/fs"
	"testing"

	"github.com/vramplan/vramplan/reliability/process"
)

// FuzzFind reads scripts with two files beside them. Whatever it finds is a document.
func FuzzFind(f *testing.F) {
	f.Add("#SBATCH --gres=gpu:a100:1\n#VRAMPLAN model=gpt2 optimizer.name=adamw", "", "")
	f.Add("A=1\nfor i in a b; do (cd $i && python train.py c.py --batch_size=$A); done", "batch_size = 5 * (8 - 3)",
		"{}")
	f.Add("python run_clm.py --model_name_or_path m --per_device_train_batch_size 4", "", `{"model_type": "gpt2"}`)
	f.Fuzz(func(t *testing.T, script, python, document string) {
		read := func(name string) ([]byte, error) {
			switch name {
			case "/job/c.py", "/job/train.py":
				return []byte(python), nil
			case "/job/m/config.json", "/job/args.json":
				return []byte(document), nil
			}
			return nil, fs.ErrNotExist
		}
		var found Found
		var err error
		if dear := process.Reading(len(script)+len(python)+len(document), func() {
			found, err = Find(Source{Script: []byte(script), Dir: "/job", ReadFile: read})
		}); dear != nil {
			t.Error(dear)
		}
		if (err == nil) != (found.Document != nil) {
			t.Fatalf("document %q with error %v", found.Document, err)
		}
		if found.Inferred && !json.Valid(found.Document) {
			t.Errorf("found %q, which is not JSON", found.Document)
		}
		found.Options.Cards(Site{}, func(string) bool { return true })
	})
}

// FuzzPairs reads key=value lines. What comes out is an object.
func FuzzPairs(f *testing.F) {
	f.Add("model=gpt2 micro_batch=8 lora.rank=4 lora.target_modules=[\"q\"] gpus=a,b")
	f.Add("optimizer=adamw optimizer.implementation=fused loss.chunks=2 loss=chunked")
	f.Fuzz(func(t *testing.T, line string) {
		document, err := directives([]byte("#VRAMPLAN x=1 " + line))
		if err != nil {
			return
		}
		var object map[string]any
		if err := json.Unmarshal(document, &object); err != nil {
			t.Errorf("%q became %s: %v", line, document, err)
		}
	})
}

// FuzzOptions reads requests for GPUs.
func FuzzOptions(f *testing.F) {
	f.Add("gres:gpu:a100_1g.5gb:2,shard:4", "[a100*2|v100]&ib", "vramplan:override=x")
	f.Fuzz(func(t *testing.T, gres, constraint, comment string) {
		o := Options{GRES: gres, Constraint: constraint, Comment: comment}
		for _, card := range o.Cards(Site{}, func(string) bool { return true }) {
			if card == "" {
				t.Errorf("%q and %q name a card without a name", gres, constraint)
			}
		}
		if n := GPUCount(gres); n < 0 || n > 0 && !o.Asked() {
			t.Errorf("%q is for %d GPUs, asked %v", gres, n, o.Asked())
		}
		_ = o.Override()
	})
}
