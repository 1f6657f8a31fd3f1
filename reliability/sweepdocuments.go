package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/reliability/wrong"
	"github.com/vramplan/vramplan/service"
)

// smallJobs are what a swept model is trained with, so that little of the time goes into answers: as it is, and with
// adapters, whose targets are looked for among the modules while the job is read. Sequences of models that see have
// room for a picture.
func smallJobs(config map[string]any) []string {
	job := `"micro_batch":1,"sequence_length":16`
	if config["vision_config"] != nil && config["model_type"] != "clip" {
		job = `"micro_batch":1,"sequence_length":1024,"precision":"bf16"`
	}
	return []string{`"training":{` + job + `}`,
		`"training":{` + job + `,"lora":{"rank":8,"target_modules":"all-linear"}}`}
}

// sweptJobs are jobs that are right, in all of whose fields wrong values are tried.
var sweptJobs = []string{
	`{"model":{"nanogpt":{"n_layer":2,"n_head":2,"n_embd":32,"block_size":64,"vocab_size":100}},"training":{
		"micro_batch":2,"sequence_length":64,"gradient_checkpointing":"full","loss":{"kind":"chunked","chunks":2},
		"evaluation":{"micro_batch":2},"framework":"pytorch"},"gpus":[{"name":"mine","memory_bytes":8589934592}]}`,
	`{"model":{"dimensions":{"layers":2,"hidden":32,"heads":4,"kv_heads":2,"ffn":64,"vocab":100}},"training":{
		"micro_batch":1,"sequence_length":64,"distributed":{"world_size":8,"data":"fsdp"}},"gpus":["h100-sxm5"]}`,
	`{"model":{"hf_config":{"model_type":"llama","num_hidden_layers":4,"hidden_size":64,"num_attention_heads":4,
		"num_key_value_heads":2,"intermediate_size":128,"vocab_size":100}},"training":{"micro_batch":1,"sequence_length":32,
		"framework":"torchtitan","gradient_accumulation":4,"distributed":{"world_size":8,"data":"fsdp",
		"tensor_parallel":2,"pipeline_parallel":2}},"gpus":["h100-sxm5"]}`,
	`{"model":{"hf_config":{"model_type":"llama","num_hidden_layers":2,"hidden_size":32,"num_attention_heads":4,
		"num_key_value_heads":2,"intermediate_size":64,"vocab_size":100}},"training":{"micro_batch":1,"sequence_length":32,
		"lora":{"rank":2,"target_modules":["q_proj"],"base_precision":"nf4"},"framework":"trl","objective":{"kind":"dpo",
		"prompt_tokens":16,"completion_tokens":16}},"gpus":["a100-sxm4-80gb"]}`,
	`{"model":{"preset":"gpt2"},"training":{"micro_batch":2,"framework":"trl","objective":{"kind":"grpo",
		"prompt_tokens":16,"completion_tokens":16,"num_generations":2,"beta":0.1}},"gpus":["rtx-4090"]}`,
	`{"model":{"diffusion":{"preset":"stable-diffusion-v1-5/stable-diffusion-v1-5"}},"training":{"micro_batch":1,
		"resolution":[64,64],"objective":{"kind":"diffusion"}},"gpus":["rtx-4090"]}`,
}

// jobFields are the places of all fields of a job document.
func jobFields() [][]string {
	var places [][]string
	var walk func(of reflect.Type, before []string)
	walk = func(of reflect.Type, before []string) {
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			place := append(slices.Clone(before), name)
			places = append(places, place)
			walk(of.Field(i).Type, place)
		}
	}
	walk(reflect.TypeFor[estimator.Job](), nil)
	return places
}

// layerKeys are what configurations call their numbers of layers, which are few in a sweep.
var layerKeys = []string{"num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_single_layers", "depth",
	"encoder_layers", "decoder_layers", "num_decoder_layers"}

// sharingKey is how many of the last layers take keys and values of others, fewer than there are.
const sharingKey = "num_kv_shared_layers"

// kindsKey is of what kind each layer is.
const kindsKey = "layer_types"

// sweptDocument is one whose values are made wrong.
type sweptDocument struct {
	wrong.Document
	// answered says that it is answered as it is; of some models not all linear layers can have adapters.
	answered bool
}

// sweptDocuments are the jobs whose values are made wrong: a configuration of every model type, as it was published and
// as its class has it, with and without adapters; pipelines; and jobs of which every part is given.
func sweptDocuments() ([]sweptDocument, error) {
	configs, err := publishedConfigs()
	if err != nil {
		return nil, err
	}
	for _, kind := range slices.Concat(model.Families(), model.Wholes()) {
		if configs["published "+kind] == nil {
			configs["published "+kind] = map[string]any{"model_type": kind}
		}
	}
	var out []sweptDocument
	add := func(name, text string, further [][]string, answered bool) error {
		d, err := wrong.Of(name, []byte(text), further)
		out = append(out, sweptDocument{d, answered})
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		config, err := json.Marshal(fewLayers(configs[name]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var asked [][]string
		for _, pointer := range model.Asked(config) {
			asked = append(asked, append([]string{"model", "hf_config"}, strings.Split(pointer, "/")[1:]...))
		}
		for i, training := range smallJobs(configs[name]) {
			text := fmt.Sprintf(`{"model":{"hf_config":%s},%s}`, config, training)
			if err := add(name, text, asked, i == 0); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range pipelines.PublishedPipelines() {
		pipeline, _ := pipelines.Pipeline{}.Completed(name)
		text, err := json.Marshal(map[string]any{"model": map[string]any{"diffusion": pipelineParts(pipeline)},
			"training": map[string]any{"micro_batch": 1, "resolution": 64,
				"objective": map[string]any{"kind": "diffusion"}}})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := add(name, string(text), nil, true); err != nil {
			return nil, err
		}
	}
	for i, job := range sweptJobs {
		if err := add(fmt.Sprintf("job %d", i), job, jobFields(), true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// publishedConfigs are those of the catalog, the first of each model type.
func publishedConfigs() (map[string]map[string]any, error) {
	models, err := service.EmbeddedCatalog().Models()
	if err != nil {
		return nil, err
	}
	configs := map[string]map[string]any{}
	for _, m := range models {
		if m.HFConfig == nil {
			continue
		}
		var config map[string]any
		if err := json.Unmarshal(m.HFConfig, &config); err != nil {
			return nil, fmt.Errorf("%s: %w", m.ID, err)
		}
		if name := fmt.Sprint("published ", config["model_type"]); configs[name] == nil {
			configs[name] = config
		}
	}
	return configs, nil
}

// pipelineParts are a pipeline's files under the job document's words.
func pipelineParts(p pipelines.Pipeline) map[string]any {
	parts := map[string]any{"vae": p.VAE, "text_encoders": p.TextEncoders}
	if p.Transformer != nil {
		parts["transformer"] = p.Transformer
	}
	if p.UNet != nil {
		parts["unet"] = p.UNet
	}
	return parts
}

// fewLayers is a configuration with few layers in each stack: two, or four where the last half takes keys and values
// of the first. Of kinds of layers it has the first and the last by turns.
func fewLayers(config map[string]any) map[string]any {
	most := 2.0
	if v, ok := config[sharingKey].(float64); ok && v > 0 {
		most = 4
	}
	few := maps.Clone(config)
	for key, v := range few {
		switch v := v.(type) {
		case map[string]any:
			few[key] = fewLayers(v)
		case float64:
			switch {
			case slices.Contains(layerKeys, key):
				few[key] = min(v, most)
			case key == sharingKey:
				few[key] = min(v, most/2)
			}
		case []any:
			if n := len(v); key == kindsKey && n > int(most) {
				kinds := make([]any, int(most))
				for i := range kinds {
					kinds[i] = v[i%2*(n-1)]
				}
				few[key] = kinds
			}
		}
	}
	return few
}
