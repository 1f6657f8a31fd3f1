package planner

import "fmt"

// size prints bytes for people: one decimal, in GiB from one GiB on.
func size(n int64) string {
	const mib, gib = 1 << 20, 1 << 30
	if n >= gib || n <= -gib {
		return fmt.Sprintf("%.1f GiB", float64(n)/gib)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/mib)
}
