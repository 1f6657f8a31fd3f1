package model

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
)

// TestNumbersComeOutOfBounds holds that no family takes a number out of a description by itself: whoever asserts that a
// value of JSON is a number has to bound it, and bounded.go is where that is done.
func TestNumbersComeOutOfBounds(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, own...)
	bounding := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			assertion, ok := n.(*ast.TypeAssertExpr)
			if !ok {
				return true
			}
			if kind, ok := assertion.Type.(*ast.Ident); !ok || kind.Name != "float64" {
				return true
			}
			if bounding++; filepath.Base(name) != "bounded.go" {
				t.Errorf("%s takes a number without bounds; use a method of bounded.go", set.Position(n.Pos()))
			}
			return true
		})
	}
	if bounding == 0 {
		t.Error("no assertion was found, not even in bounded.go")
	}
}

// TestNothingIsMadeOfWhatIsRefused holds that a description in which something is refused is no architecture at all,
// and that the errors are about what was given, not about what stands in for it.
func TestNothingIsMadeOfWhatIsRefused(t *testing.T) {
	for config, want := range map[string]string{
		`{"model_type":"qwen2_5_vl","hidden_size":3584,"num_attention_heads":28,"num_key_value_heads":4,
			"vision_config":{"window_size":7}}`: "/vision_config/window_size: window_size is 7, " +
			"and a token alone stands for 28 pixels a side",
		`{"model_type":"gpt_oss","num_local_experts":0}`: "/num_local_experts: num_local_experts is 0; it is a whole " +
			"number from 1 to 1024",
		`{"model_type":"lfm2","intermediate_size":1}`: ": the MLP of a layer would be 0 wide; it is at least 1",
		// a width that stands in for the refused one is divided by nothing that is given
		`{"model_type":"llama","hidden_size":-1,"num_attention_heads":7}`: "/hidden_size: hidden_size is -1; it is a whole " +
			"number from 1 to 16777216",
		`{"model_type":"gemma4_text","num_hidden_layers":20,"num_kv_shared_layers":20}`: "/num_kv_shared_layers: " +
			"num_kv_shared_layers is 20, so many layers at the end take the keys and values of layers before them, and there " +
			"are 20; transformers stops there, too: give one below num_hidden_layers, such as 0",
	} {
		var errs invalid.List
		a := FromHF(json.RawMessage(config), "", &errs)
		err := errs.Err()
		if err == nil {
			t.Errorf("%s is accepted", config)
			continue
		}
		if !reflect.DeepEqual(a, arch.Architecture{}) {
			t.Errorf("%s is refused, and makes %v", config, &a)
		}
		if got := strings.TrimPrefix(err.Error(), "the job is not valid: "); got != want {
			t.Errorf("%s:\n%s", config, cmp.Diff(want, got))
		}
	}
}

// TestOneRefusalIsSaidAlone holds that what stands in for a refused number fits to the others: with any key refused,
// everything else of a right configuration is still right.
func TestOneRefusalIsSaidAlone(t *testing.T) {
	refusals := 0
	for _, kind := range Families() {
		right := json.RawMessage(`{"model_type":"` + kind + `"}`)
		var errs invalid.List
		if FromHF(right, "", &errs); errs.Err() != nil {
			continue // the class has no defaults for all of it
		}
		for _, pointer := range Asked(right) {
			key := strings.TrimPrefix(pointer, "/")
			if strings.Contains(key, "/") {
				continue
			}
			config, err := json.Marshal(map[string]any{"model_type": kind, key: -5})
			if err != nil {
				t.Fatal(err)
			}
			var errs invalid.List
			FromHF(config, "", &errs)
			found, refused := errs.Err().(*invalid.Error)
			if refused {
				refusals++
			}
			if refused && (len(found.Fields) != 1 || found.Fields[0].Pointer != pointer) {
				t.Errorf("%s: %v", config, found)
			}
		}
	}
	if refusals < len(Families()) {
		t.Errorf("%d wrong values were refused, fewer than there are families", refusals)
	}
}
