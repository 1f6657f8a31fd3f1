-- The catalog of GPUs and models.
--
-- Built-in rows and a user's rows live side by side: the key is (id, origin), a
-- user's row hides the built-in one of the same id, and removing it brings the
-- built-in one back. An upgrade writes rows of origin 'builtin' only, so it cannot
-- touch what a user entered.
--
-- The document is the entry's JSON without its id, aliases, origin and revision,
-- which are columns.

-- +goose Up
CREATE TABLE IF NOT EXISTS gpus (
    id         TEXT    NOT NULL,
    origin     TEXT    NOT NULL CHECK (origin IN ('builtin', 'user')),
    position   INTEGER NOT NULL DEFAULT 0,
    document   TEXT    NOT NULL CHECK (document::jsonb IS NOT NULL),
    revision   BIGINT  NOT NULL DEFAULT 1,
    created_at TEXT    NOT NULL,
    updated_at TEXT    NOT NULL,
    PRIMARY KEY (id, origin)
);

CREATE TABLE IF NOT EXISTS gpu_aliases (
    alias    TEXT    NOT NULL,
    origin   TEXT    NOT NULL,
    gpu_id   TEXT    NOT NULL,
    position INTEGER NOT NULL DEFAULT 0,
    note     TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (alias, origin),
    FOREIGN KEY (gpu_id, origin) REFERENCES gpus (id, origin) ON DELETE CASCADE
);

CREATE INDEX IF NOT EXISTS gpu_aliases_by_gpu ON gpu_aliases (gpu_id, origin);

CREATE TABLE IF NOT EXISTS models (
    id         TEXT    NOT NULL,
    origin     TEXT    NOT NULL CHECK (origin IN ('builtin', 'user')),
    position   INTEGER NOT NULL DEFAULT 0,
    document   TEXT    NOT NULL CHECK (document::jsonb IS NOT NULL),
    revision   BIGINT  NOT NULL DEFAULT 1,
    created_at TEXT    NOT NULL,
    updated_at TEXT    NOT NULL,
    PRIMARY KEY (id, origin)
);

CREATE TABLE IF NOT EXISTS model_aliases (
    alias    TEXT    NOT NULL,
    origin   TEXT    NOT NULL,
    model_id TEXT    NOT NULL,
    position INTEGER NOT NULL DEFAULT 0,
    note     TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (alias, origin),
    FOREIGN KEY (model_id, origin) REFERENCES models (id, origin) ON DELETE CASCADE
);

CREATE INDEX IF NOT EXISTS model_aliases_by_model ON model_aliases (model_id, origin);

-- One row: the revision of the built-in data, and how often users have changed
-- the catalog since the database was made.
CREATE TABLE IF NOT EXISTS catalog_state (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    builtin      TEXT    NOT NULL,
    user_changes BIGINT NOT NULL DEFAULT 0
);

INSERT INTO catalog_state (id, builtin, user_changes) VALUES (1, 'c-0', 0) ON CONFLICT (id) DO NOTHING;

-- +goose Down
DROP TABLE catalog_state;
DROP TABLE model_aliases;
DROP TABLE models;
DROP TABLE gpu_aliases;
DROP TABLE gpus;
