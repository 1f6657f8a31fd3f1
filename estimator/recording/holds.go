package recording

// Holds is between which sizes, both included, the module was seen to do what is recorded. An empty list says that the
// recorder did not look, or that there is nothing to look at.
type Holds struct {
	Batch  []int64 `json:"batch"`
	Length []int64 `json:"length"`
}

func (h *Holds) check() error {
	for pointer, list := range map[string][]int64{"/holds/batch": h.Batch, "/holds/length": h.Length} {
		if len(list) > 0 && (len(list) != 2 || list[0] < 1 || list[1] < list[0] || list[1] > 1<<30) {
			return at(pointer, "are two sizes, the lesser first, from 1 to %d", 1<<30)
		}
	}
	return nil
}

// within says whether n lies between the two of a list.
func within(list []int64, n int64) bool { return len(list) == 0 || list[0] <= n && n <= list[1] }

// OfBatch says whether the recording holds for batches of n samples, OfLength for sequences of n tokens.
func (h *Holds) OfBatch(n int64) bool { return within(h.Batch, n) }

// OfLength says whether the recording holds for sequences of n tokens.
func (h *Holds) OfLength(n int64) bool { return within(h.Length, n) }
