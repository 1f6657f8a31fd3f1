// Package migrations holds the database schema and the built-in catalog: as numbered
// SQL for databases, and as the same documents in JSON for use without one.
//
// A dialect has a folder of its own; a migration has the same number and name in
// each. A migration that has been released does not change. When the catalog's
// data do, `go run ./migrations/gen` writes seeds under new numbers (gen's seeds
// table), which replace built-in rows and never touch a user's.
package migrations

import "embed"

//go:generate go run ./gen -root .

// SQLite holds the migrations for SQLite, in the folder "sqlite".
//
//go:embed sqlite/*.sql
var SQLite embed.FS

// Postgres holds the migrations for PostgreSQL and what speaks its language, in the
// folder "postgres".
//
//go:embed postgres/*.sql
var Postgres embed.FS

// GPUs is the built-in GPU catalog: a JSON array of service/catalog.GPU.
//
//go:embed catalog/gpus.json
var GPUs []byte

// Models is the built-in model catalog: a JSON array of service/catalog.Model.
//
//go:embed catalog/models.json
var Models []byte

// CatalogRevision names the contents of GPUs and Models. It goes up with every change
// to them, since it is part of what makes an answer repeatable.
const CatalogRevision = "c-7"
