// Package arch is what all models have in common: an architecture in numbers, how a config.json is read into one within
// bounds, how modules are declared in the order in which they are moved to the GPU, and the adapters on them.
//
// A family (Family) has a function that reads and one that builds. Between them stands an Architecture:
//
//	config.json → Config → Family.Read → Architecture → Family.Build, with a Builder → step.Network
//
// What only a family's own files understand is in Architecture.Own; the rest asks it by the interfaces of own.go.
// Nothing here knows a family.
package arch
