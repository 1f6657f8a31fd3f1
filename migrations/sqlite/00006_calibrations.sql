-- Calibrations that were fitted to observations, and which of them answers are made with. A
-- calibration is never changed or removed: answers name it.

-- +goose Up
-- The summary is the document without what it says of each group. The digest is that of the figures
-- alone: fitting the same ones again makes no new calibration.
CREATE TABLE IF NOT EXISTS calibrations (
    number   BIGINT NOT NULL PRIMARY KEY,
    id       TEXT   NOT NULL,
    digest   TEXT   NOT NULL,
    summary  TEXT   NOT NULL,
    document TEXT   NOT NULL
);

CREATE UNIQUE INDEX IF NOT EXISTS calibrations_by_id ON calibrations (id);
CREATE UNIQUE INDEX IF NOT EXISTS calibrations_by_digest ON calibrations (digest);

-- The last row says what is active; the id of no calibration is that of the built-in constants.
CREATE TABLE IF NOT EXISTS calibration_activations (
    number         BIGINT NOT NULL PRIMARY KEY,
    calibration_id TEXT   NOT NULL,
    key_id         TEXT   NOT NULL,
    key_name       TEXT   NOT NULL,
    activated_at   TEXT   NOT NULL
);

-- One row, which whoever adds to either table updates first.
CREATE TABLE IF NOT EXISTS calibration_state (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    versions    BIGINT  NOT NULL DEFAULT 0,
    activations BIGINT  NOT NULL DEFAULT 0
);

INSERT INTO calibration_state (id, versions, activations) VALUES (1, 0, 0) ON CONFLICT (id) DO NOTHING;

-- +goose Down
DROP TABLE calibration_state;
DROP TABLE calibration_activations;
DROP TABLE calibrations;
