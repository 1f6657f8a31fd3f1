-- Empty: it wrote the built-in entries of one edition of the catalog, which are embedded as JSON now and written behind
-- the last migration (service/store/edition.go). The number stays, since databases have it.

-- +goose Up
