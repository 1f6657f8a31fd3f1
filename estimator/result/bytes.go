package result

import "fmt"

// Bytes prints a size for people: one decimal in GiB from 10 GiB on, else in MiB, so that
// 12282 MiB does not become 12 GiB.
type Bytes int64

func (b Bytes) String() string {
	const mib, gib = 1 << 20, 1 << 30
	switch {
	case b >= gib || b <= -gib:
		return fmt.Sprintf("%.2f GiB", float64(b)/gib)
	case b >= mib || b <= -mib:
		return fmt.Sprintf("%.1f MiB", float64(b)/mib)
	}
	return fmt.Sprintf("%d B", int64(b))
}
