package submission

import (
	"context"
	"encoding/json"
	"io/fs"
	"testing"

	"github.com/vramplan/vramplan/reliability/process"
	"github.com/vramplan/vramplan/service/readers/slurm"
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
			found, err = Find(context.Background(), Source{Script: []byte(script), Dir: "/job", ReadFile: read})
		}); dear != nil {
			t.Error(dear)
		}
		if (err == nil) != (found.Document != nil) {
			t.Fatalf("document %q with error %v", found.Document, err)
		}
		if found.Inferred && !json.Valid(found.Document) {
			t.Errorf("found %q, which is not JSON", found.Document)
		}
		(&Site{}).Cards(found.Options, func(string) bool { return true })
	})
}

// FuzzCards reads requests for GPUs. Every card has a name.
func FuzzCards(f *testing.F) {
	f.Add("gres:gpu:a100_1g.5gb:2,shard:4", "[a100*2|v100]&ib")
	f.Fuzz(func(t *testing.T, gres, constraint string) {
		o := slurm.Options{GRES: gres, Constraint: constraint}
		for _, card := range (&Site{}).Cards(o, func(string) bool { return true }) {
			if card == "" {
				t.Errorf("%q and %q name a card without a name", gres, constraint)
			}
		}
	})
}
