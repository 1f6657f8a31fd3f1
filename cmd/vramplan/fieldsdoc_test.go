package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/vramplan/vramplan/openapi"
)

// documented is a field of the job document.
type documented struct{ path, words string }

// fieldsOf lists the fields of a schema of the OpenAPI document and of those below it, in their order. Of a union those
// of its objects are listed once.
func fieldsOf(schema gjson.Result, at string, listed map[string]bool) (list []documented) {
	if ref := schema.Get("$ref").Str; ref != "" {
		name := ref[strings.LastIndexByte(ref, '/')+1:]
		return fieldsOf(gjson.GetBytes(openapi.Document, "components.schemas."+name), at, listed)
	}
	for _, union := range []string{"anyOf", "oneOf"} {
		for _, form := range schema.Get(union).Array() {
			list = append(list, fieldsOf(form, at, listed)...)
		}
	}
	schema.Get("properties").ForEach(func(name, field gjson.Result) bool {
		path := strings.TrimPrefix(at+"."+name.Str, ".")
		below := fieldsOf(field, path, listed)
		if !listed[path] {
			listed[path] = true
			words := cmp.Or(field.Get("description").Str, gjson.GetBytes(openapi.Document,
				"components.schemas."+strings.TrimPrefix(field.Get("$ref").Str, "#/components/schemas/")+
					".description").Str)
			list = append(list, documented{path, words})
		}
		list = append(list, below...)
		return true
	})
	return list
}

// flagsByField are the flags of a job by the paths of the fields that they say.
func flagsByField(t *testing.T) map[string][]string {
	t.Helper()
	flags := map[string][]string{"model.preset": {"--model"}, "model.hf_config": {"--hf-config"},
		"model.recorded": {"--recorded"}, "model.diffusion.preset": {"--pipeline"},
		"training.lora": {"--qlora"}, "training.objective.teacher.hf_config": {"--teacher"},
		"training.distributed.deepspeed": {"--deepspeed"}}
	for _, part := range []any{modelFields{}, kindFields{}, spreadFields{}, cardFields{}} {
		of := reflect.TypeOf(part)
		for i := range of.NumField() {
			tag := of.Field(i).Tag
			path := tag.Get("job")
			if path == "" {
				continue
			}
			name := cmp.Or(tag.Get("name"), dashed(of.Field(i).Name))
			if _, negatable := tag.Lookup("negatable"); negatable {
				name = "[no-]" + name
			}
			flags[path] = append(flags[path], "--"+name)
		}
	}
	return flags
}

// dashed is the name that kong gives the flag of a field.
func dashed(name string) string {
	var b strings.Builder
	for i, c := range name {
		if i > 0 && c >= 'A' && c <= 'Z' {
			b.WriteByte('-')
		}
		b.WriteRune(c)
	}
	return strings.ToLower(b.String())
}

// TestEveryFieldIsDocumented: docs/job.md has every field of the job document with its words and its flag; -update
// writes it.
func TestEveryFieldIsDocumented(t *testing.T) {
	flags := flagsByField(t)
	fields := fieldsOf(gjson.GetBytes(openapi.Document, "components.schemas.Job"), "", map[string]bool{})
	var b strings.Builder
	b.WriteString(`
Made from the OpenAPI document and the command line by ` + "`go test ./cmd/vramplan -run EveryFieldIsDocumented -update`" + `. A
field without a flag of its own is said by ` + "`--set`" + `, which takes any of them: ` + "`--set distributed.rank=3`" + `, ` +
		"`--set objective.num_iterations=2`" + `,
` + "`--set versions.torch=2.9.1`" + `. Its name needs no ` + "`training.`" + `; what is JSON is taken as JSON, anything else as a
word. ` + "`#VRAMPLAN`" + ` lines of a script take the same names. What a field may hold stands in ` + "`/openapi.json`" + ` and in
what is said of a wrong one. Words are read in upper case and with spaces, too.

| field | flag | what |
|---|---|---|
`)
	seen := map[string]bool{}
	for _, f := range fields {
		seen[f.path] = true
		if f.words == "" {
			t.Errorf("%s has no description", f.path)
		}
		words := strings.NewReplacer("|", `\|`, "\n", " ").Replace(inTable(f))
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.TrimPrefix(f.path, "training."), quotedFlags(flags[f.path]),
			words)
	}
	for path := range flags {
		if !seen[path] {
			t.Errorf("a flag says %s, which is no field", path)
		}
	}
	for _, path := range []string{"training.micro_batch", "training.objective.rollout_forward_batch",
		"training.optimizer.name",
		"training.distributed.tensor_parallel", "model.nanogpt.n_layer"} {
		if !seen[path] {
			t.Errorf("%s is not among the fields", path)
		}
	}
	file := filepath.Join("..", "..", "docs", "job.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	written, got, found := strings.Cut(string(page), "## Fields\n")
	if !found {
		t.Fatal("docs/job.md has no heading Fields")
	}
	if *update {
		got = b.String()
		if err := os.WriteFile(file, []byte(written+"## Fields\n"+got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got != b.String() {
		t.Error("the fields in docs/job.md are not what the document says; -update writes them")
	}
}

// inTable is what is said of a field without its name, which stands in the row, and without what stands above the
// table.
func inTable(f documented) string {
	words := strings.ReplaceAll(f.words, " Upper case and spaces are read as lower case and dashes.", "")
	name := "`" + f.path[strings.LastIndex(f.path, ".")+1:] + "` "
	rest, found := strings.CutPrefix(words, name)
	if !found || strings.HasPrefix(rest, "and ") {
		return words
	}
	for _, verb := range []string{"is ", "are ", "says "} {
		short, found := strings.CutPrefix(rest, verb)
		if !found {
			continue
		}
		if !phrase.MatchString(short) { // a value, as it is written
			return short
		}
		rest = short
		break
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

// phrase begins with a word of the language and not with one of a field's values.
var phrase = regexp.MustCompile(`^(an?|the|that|those|its|how|what|which|whether|for|in|another|one|low|not|refused)\b`)

func quotedFlags(names []string) string {
	var list []string
	for _, name := range names {
		list = append(list, "`"+name+"`")
	}
	return strings.Join(list, ", ")
}

// TestFlagsAreAccepted: every flag makes a document that the reader of jobs takes, whatever it then says of the value.
func TestFlagsAreAccepted(t *testing.T) {
	for path := range flagsByField(t) {
		document, err := apply([]byte("{}"), []edit{{path: path, value: "?"}})
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(document) || !gjson.GetBytes(document, path).Exists() {
			t.Errorf("%s is not in %s", path, document)
		}
	}
	if names := flagsByField(t)["reserve_bytes"]; !slices.Equal(names, []string{"--reserve-bytes", "--reserve"}) {
		t.Errorf("reserve_bytes has the flags %q", names)
	}
}
