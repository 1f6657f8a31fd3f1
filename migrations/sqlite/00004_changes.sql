-- What users change: who changed which entry of the catalog when, and the API keys
-- with which they do. Times are text in RFC 3339, in UTC.

-- +goose Up
-- change_number is catalog_state.user_changes after the change, and the revision of the
-- entry that it made. The document is the whole entry; NULL after a delete.
CREATE TABLE IF NOT EXISTS catalog_history (
    change_number BIGINT NOT NULL PRIMARY KEY,
    kind          TEXT   NOT NULL CHECK (kind IN ('gpu', 'model')),
    entry_id      TEXT   NOT NULL,
    action        TEXT   NOT NULL CHECK (action IN ('create', 'replace', 'delete')),
    key_id        TEXT   NOT NULL,
    key_name      TEXT   NOT NULL,
    changed_at    TEXT   NOT NULL,
    document      TEXT
);

CREATE INDEX IF NOT EXISTS catalog_history_by_entry ON catalog_history (kind, entry_id, change_number);

-- A key itself is not stored, only its SHA-256. Scopes are separated by spaces.
CREATE TABLE IF NOT EXISTS api_keys (
    id         TEXT NOT NULL PRIMARY KEY,
    name       TEXT NOT NULL,
    hash       TEXT NOT NULL,
    scopes     TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT
);

-- +goose Down
DROP TABLE api_keys;
DROP TABLE catalog_history;
