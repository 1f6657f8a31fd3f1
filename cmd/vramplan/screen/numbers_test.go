package screen

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// A size of a gibibyte or more is in GiB with two decimals wherever it stands, so that figures beside each other can be
// compared; less is in MiB.
func TestSizesHaveOneUnit(t *testing.T) {
	const mib = 1 << 20
	tests := map[int64]string{
		0:            "0 B",
		474*mib + 1:  "474.0 MiB",
		1024 * mib:   "1.00 GiB",
		8735 * mib:   "8.53 GiB",
		12282 * mib:  "11.99 GiB",
		-11994 * mib: "-11.71 GiB",
		-5 * mib:     "-5.0 MiB",
	}
	for bytes, want := range tests {
		if got := Size(bytes); got != want {
			t.Errorf("size(%d) = %q, want %q", bytes, got, want)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 124373760: "124,373,760", -1234: "-1,234",
		math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		if got := Thousands(n); got != want {
			t.Errorf("thousands(%d) = %q, want %q", n, got, want)
		}
	}
}

// A bar is never wider than its column, nor empty where there is a visible share.
func TestBarStaysInItsColumn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64().Draw(t, "share")
		if got := Width(Style{Colour: true}.Bar(share, 24)); got > 24 {
			t.Fatalf("bar(%v) is %d wide", share, got)
		}
	})
	if got := (Style{}).Bar(0.01, 24); got == "" {
		t.Error("a share of 1 % has no bar")
	}
	if got := Width(Style{}.Bar(1, 24)); got != 24 {
		t.Errorf("the whole is %d wide, want %d", got, 24)
	}
}
