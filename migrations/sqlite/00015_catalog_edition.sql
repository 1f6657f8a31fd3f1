-- Which edition of the catalog the built-in rows are: the digest of what the program embeds that wrote them. Its
-- name is catalog_state.builtin.

-- +goose Up
CREATE TABLE IF NOT EXISTS catalog_edition (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    digest TEXT    NOT NULL
);

-- +goose Down
DROP TABLE catalog_edition;
