package decision

// maxTries bounds the estimates of a search for a pair.
const maxTries = 8

// SmallerPair finds the largest micro-batch below micro that fits and reaches the same effective batch
// with a whole number of accumulation steps. It is the advice that costs a few estimates, where a plan costs
// dozens. A micro or accumulation of 0 means 1.
func SmallerPair(micro, accumulation int64, fits func(micro, accumulation int64) bool) (m, a int64, ok bool) {
	micro, accumulation = max(micro, 1), max(accumulation, 1)
	tries := 0
	for n := int64(2); n <= micro && tries < maxTries; n++ {
		if micro%n != 0 {
			if n > 1<<16 { // a large prime
				return 0, 0, false
			}
			continue
		}
		tries++
		if fits(micro/n, accumulation*n) {
			return micro / n, accumulation * n, true
		}
	}
	return 0, 0, false
}
