-- Activations that a policy made in the place of a person, with its reasons. Where it refused a
-- calibration, that is named, and the activation is of what was active before.

-- +goose Up
CREATE TABLE IF NOT EXISTS calibration_decisions (
    activation BIGINT NOT NULL PRIMARY KEY,
    refused    TEXT   NOT NULL,
    reason     TEXT   NOT NULL
);

-- +goose Down
DROP TABLE calibration_decisions;
