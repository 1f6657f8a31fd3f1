// Package layouts finds the ways to put a job on a cluster: [Plan] goes over what frameworks can be asked for
// (kinds.go, structures.go), leaves out what cannot fit by a bound (bounds.go), estimates the others the fastest first
// (search.go, rank.go), and says on how few GPUs one still fits (fewest.go). It asks through an asking.Asker, and knows
// nothing of the options on one card.
package layouts
