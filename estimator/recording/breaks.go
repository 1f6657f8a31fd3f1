package recording

// Breaks says where torch.compile breaks the graph of a module.
type Breaks string

// A module may be one graph; its loss may be compiled apart from it; it may break elsewhere, or its loss may stand
// outside of the module and run eagerly.
const (
	BreaksNowhere     Breaks = "none"
	BreaksBeforeLoss  Breaks = "loss"
	BreaksInModel     Breaks = "model"
	BreaksOutsideLoss Breaks = "outside"
)

func (b Breaks) known() bool {
	switch b {
	case "", BreaksNowhere, BreaksBeforeLoss, BreaksInModel, BreaksOutsideLoss:
		return true
	}
	return false
}
