-- Digests, by which rows that were altered, removed or slipped in behind the service are noticed.

-- +goose Up
-- One row for each row of the tables below: the SHA-256 of all its columns.
CREATE TABLE IF NOT EXISTS row_digests (
    table_name TEXT NOT NULL,
    row_key    TEXT NOT NULL,
    digest     TEXT NOT NULL,
    PRIMARY KEY (table_name, row_key)
);

-- How often a table was written, and the number of its digests and their sum. -1 writes: the rows that older
-- programs wrote have no digests yet.
CREATE TABLE IF NOT EXISTS table_digests (
    table_name TEXT   NOT NULL PRIMARY KEY,
    writes     BIGINT NOT NULL,
    row_count  BIGINT NOT NULL,
    digest     TEXT   NOT NULL
);

INSERT INTO table_digests (table_name, writes, row_count, digest) VALUES
    ('catalog_history', -1, 0, ''),
    ('api_keys', -1, 0, ''),
    ('observations', -1, 0, ''),
    ('calibrations', -1, 0, ''),
    ('calibration_activations', -1, 0, ''),
    ('calibration_decisions', -1, 0, '')
ON CONFLICT (table_name) DO NOTHING;

-- +goose Down
DROP TABLE table_digests;
DROP TABLE row_digests;
