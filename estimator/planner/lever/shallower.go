package lever

import "encoding/json"

// shallow is a config.json with fewer layers.
type shallow struct {
	key    string // what the family calls the number of layers
	layers int64
	config json.RawMessage
}

// shallower cuts layers off the model of a config.json and leaves everything else in it as it is. A file that does
// not say how many layers it has gets none.
func shallower(config json.RawMessage) []shallow {
	var fields map[string]json.RawMessage
	if len(config) == 0 || json.Unmarshal(config, &fields) != nil {
		return nil
	}
	for _, key := range []string{"num_hidden_layers", "n_layer"} {
		var layers int64
		if json.Unmarshal(fields[key], &layers) != nil || layers < 2 {
			continue
		}
		var out []shallow
		for _, n := range shares(layers, 1, 4) {
			fields[key], _ = json.Marshal(n) // a number always can be written
			if changed, err := json.Marshal(fields); err == nil {
				out = append(out, shallow{key, n, changed})
			}
		}
		return out
	}
	return nil
}
