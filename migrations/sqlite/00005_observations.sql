-- What training runs were measured to take. Nothing is ever changed or removed here: a run
-- that looks wrong is marked in its document, and kept.

-- +goose Up
-- Ids begin with the time, so their order is that of the observations. The document
-- is the observation with what was predicted for it; request_digest is that of what was sent.
-- FAMILY without quotes is a word of CockroachDB's own.
CREATE TABLE IF NOT EXISTS observations (
    id              TEXT NOT NULL PRIMARY KEY,
    key_id          TEXT NOT NULL,
    idempotency_key TEXT,
    request_digest  TEXT NOT NULL,
    gpu             TEXT NOT NULL,
    "family"        TEXT NOT NULL,
    document        TEXT NOT NULL
);

CREATE UNIQUE INDEX IF NOT EXISTS observations_once ON observations (key_id, idempotency_key);
CREATE INDEX IF NOT EXISTS observations_by_group ON observations (gpu, "family", id);

-- +goose Down
DROP TABLE observations;
