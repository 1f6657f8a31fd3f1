package planner

import ("testing";"fmt";"time")

func TestZZ(t *testing.T) {
	for _, e := range []int64{1024, 65536, 1<<20, 1<<31, 2095133040} {
		r := story(); r.EffectiveBatch = e
		t0 := time.Now()
		p, err := Make(t.Context(), r)
		if err != nil { t.Fatal(err) }
		fmt.Println(e, len(p.Pairs), p.Recommended, p.LargestMicroBatch, time.Since(t0))
	}
}
