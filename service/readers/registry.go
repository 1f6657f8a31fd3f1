package readers

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/accelerate"
	"github.com/vramplan/vramplan/service/readers/axolotl"
	"github.com/vramplan/vramplan/service/readers/deepspeed"
	"github.com/vramplan/vramplan/service/readers/diffusers"
	"github.com/vramplan/vramplan/service/readers/finish"
	"github.com/vramplan/vramplan/service/readers/foundry"
	"github.com/vramplan/vramplan/service/readers/hydra"
	"github.com/vramplan/vramplan/service/readers/litgpt"
	"github.com/vramplan/vramplan/service/readers/llamafactory"
	"github.com/vramplan/vramplan/service/readers/megatron"
	"github.com/vramplan/vramplan/service/readers/nanogpt"
	"github.com/vramplan/vramplan/service/readers/nanotron"
	"github.com/vramplan/vramplan/service/readers/nemo"
	"github.com/vramplan/vramplan/service/readers/nemorl"
	"github.com/vramplan/vramplan/service/readers/neox"
	"github.com/vramplan/vramplan/service/readers/olmo"
	"github.com/vramplan/vramplan/service/readers/openinstruct"
	"github.com/vramplan/vramplan/service/readers/refused"
	"github.com/vramplan/vramplan/service/readers/script"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/swift"
	"github.com/vramplan/vramplan/service/readers/tool"
	"github.com/vramplan/vramplan/service/readers/torchtitan"
	"github.com/vramplan/vramplan/service/readers/torchtune"
	"github.com/vramplan/vramplan/service/readers/trainer"
	"github.com/vramplan/vramplan/service/readers/verl"
)

// tools are all readers. The first that recognises a command reads it, so that those that are like others come before
// them.
var tools = []*tool.Tool{
	&diffusers.Tool, &refused.Tool, &nemorl.Tool, &nemo.Tool, &nanogpt.Tool, &torchtune.Tool, &torchtitan.Tool,
	&litgpt.Tool,
	&axolotl.Tool, &llamafactory.Tool, &swift.Tool, &openinstruct.Tool, &verl.Tool, &megatron.Tool, &foundry.Tool,
	&neox.Tool, &nanotron.Tool, &olmo.Tool,
	&script.Tool, &trainer.Tool, &hydra.Tool, &deepspeed.Tool, &accelerate.Tool,
}

// all is what is known of all of them together.
var all = finish.TableOf(tools)

// enough is what the marks of a file have to weigh before a reader takes it.
const enough = 4

// detect chooses the reader of a file that stands alone, by the keys that are in it. Of two that are about as likely
// neither is taken.
func detect(s *setting.Settings) *tool.Tool {
	var best *tool.Tool
	most := enough - 1
	for _, t := range tools {
		weight := 0
		for key, w := range t.Marks {
			prefix, wild := strings.CutSuffix(key, "*")
			if wild {
				for _, k := range s.Keys() {
					if strings.HasPrefix(k, prefix) {
						weight += w
						break
					}
				}
			} else if s.Has(key) {
				weight += w
			}
		}
		if weight > most {
			best, most = t, weight
		}
	}
	return best
}
