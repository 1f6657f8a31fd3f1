package draft

import "strings"

// HeadPointer is the field of what stands on top of a model.
const HeadPointer = "/model/head"

// dropModel removes the model, and leaves what the program puts on top of it.
func (d *Draft) dropModel() {
	for p := range d.Fields {
		if p == "/model" || strings.HasPrefix(p, "/model/") && !strings.HasPrefix(p, HeadPointer+"/") {
			delete(d.Fields, p)
		}
	}
}
