// Package draws makes random tests draw the same for everybody: whose test imports it begins at Seed, in CI and on a
// newcomer's machine, so that a test fails for what was changed and not for what was drawn. RAPID_SEED or -rapid.seed
// draw otherwise, 0 at random; "make fresh" does so for all random tests and "make steady" as often as it is asked.
package draws

import (
	"flag"
	"os"
	"strconv"

	_ "pgregory.net/rapid" // declares the flag
)

// Seed is where random tests begin that nobody told where to. Another number would do as well.
const Seed = 1

// Variable is where rapid reads the seed from.
const Variable = "RAPID_SEED"

func init() {
	if os.Getenv(Variable) != "" {
		return
	}
	if err := flag.Set("rapid.seed", strconv.Itoa(Seed)); err != nil {
		panic("draws: " + err.Error())
	}
}
