package defaults

// The functions and classes that say in which type a model is loaded where the job says none.
const (
	FromPretrained = "from_pretrained"
	ModelOfTRL     = "create_model_from_path"
	ConfigOfTRL    = "ModelConfig"
)

// loads are the types in which a model is loaded where nobody says one: by transformers itself, by trl's trainers that
// are given its name, and by trl's own programs. "None", and what trl did not hand on, is what transformers does.
var loads = []Default{
	{"transformers", "", "torch_dtype", "None", "transformers/modeling_utils.py", FromPretrained, "float32"},
	{"transformers", "4.57.6", "dtype", "None", "transformers/modeling_utils.py", FromPretrained, "float32"},
	{"transformers", "5.0.0", "dtype", "'auto'", "transformers/modeling_utils.py", FromPretrained,
		"the type of the checkpoint"},
	{"trl", "0.24.0", "dtype", "None", "trl/trainer/utils.py", ModelOfTRL, "as transformers loads it"},
	{"trl", "0.26.0", "dtype", "'auto'", "trl/trainer/utils.py", ModelOfTRL, "not handed on: as transformers loads it"},
	{"trl", "0.27.0", "dtype", "'float32'", "trl/trainer/utils.py", ModelOfTRL, ""},
	{"trl", "", "torch_dtype", "None", "trl/trainer/model_config.py", ConfigOfTRL, "as transformers loads it"},
	{"trl", "0.23.0", "dtype", "None", "trl/trainer/model_config.py", ConfigOfTRL, "as transformers loads it"},
	{"trl", "0.27.0", "dtype", "'float32'", "trl/trainer/model_config.py", ConfigOfTRL, ""},
}

// LoadsIn is the row of a class or function that holds in a release.
func LoadsIn(class, version string) (row Default) {
	for _, d := range loads {
		if d.Class == class && !Older(version, d.From) {
			row = d // rows are in the order of releases
		}
	}
	return row
}
