// Package catalog is the list of GPUs and models that vramplan knows, and the
// one place that decides which of them a name means.
//
// A name matches exactly, after case, separators and vendor prefixes are put
// aside, or it does not match: a card that is merely similar has another memory,
// and a plan for it would be wrong without anybody noticing. Unknown names
// come back as an *UnknownError that carries the nearest ones.
//
// The package does no I/O. It is filled from the embedded snapshot or a
// database, which hold the same documents.
package catalog
