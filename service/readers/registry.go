package readers

import "strings"

// tool is one reader.
type tool struct {
	name string
	// starts recognises the tool in a command, and gathers its settings.
	starts func(*reading) bool
	// marks are keys by which the tool's own file is recognised; the weights of those that are there add up.
	marks map[string]int
	// read maps settings to fields.
	read func(*reading)
	// words are the tool's own names for fields of a job document, for patches.
	words words
}

// tools are all readers. The first that recognises a command reads it, so that those that are like others come before
// them.
var tools = []*tool{
	&refusedTool, &nemoRLTool, &nemoTool, &nanoGPTTool, &torchtuneTool, &torchtitanTool, &litgptTool, &axolotlTool,
	&llamaFactoryTool,
	&swiftTool, &openInstructTool, &verlTool, &megatronTool, &foundryTool, &neoxTool, &nanotronTool, &olmoTool,
	&scriptTool, &trainerTool, &hydraTool, &deepspeedTool, &accelerateTool,
}

// enough is what the marks of a file have to weigh before a reader takes it.
const enough = 4

// detect chooses the reader of a file that stands alone, by the keys that are in it. Of two that are about as likely
// neither is taken.
func detect(r *reading) *tool {
	var best *tool
	most := enough - 1
	for _, t := range tools {
		weight := 0
		for key, w := range t.marks {
			prefix, wild := strings.CutSuffix(key, "*")
			if wild {
				for _, k := range r.s.Keys() {
					if strings.HasPrefix(k, prefix) {
						weight += w
						break
					}
				}
			} else if r.s.Has(key) {
				weight += w
			}
		}
		if weight > most {
			best, most = t, weight
		}
	}
	return best
}
