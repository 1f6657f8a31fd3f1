package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
)

// kept is what answers are made with in a file, for a start while the database is gone.
type kept struct {
	// Database is where it is from: that of another is not used.
	Database string `json:"database"`
	// Digest is the SHA-256 of Contents, the catalog.
	Digest   string          `json:"digest"`
	Contents json.RawMessage `json:"contents"`
	// Calibration is the active one, with its SHA-256; both are missing where that is the built-in one, and in files
	// of older programs.
	CalibrationDigest string          `json:"calibration_digest,omitempty"`
	Calibration       json.RawMessage `json:"calibration,omitempty"`
	// Calibrations are those that requests may name, with the SHA-256 of the list; missing in files of older programs.
	CalibrationsDigest string          `json:"calibrations_digest,omitempty"`
	Calibrations       json.RawMessage `json:"calibrations,omitempty"`
	// Writes are those that the database was seen to have of each table; missing in files of older programs.
	Writes map[string]int64 `json:"writes,omitempty"`
}

// Keep writes a snapshot to a file. The file is the old one or the new one, never a part.
func Keep(path, database string, s service.Snapshot) error {
	contents, err := json.Marshal(s.Catalog)
	if err != nil {
		return fmt.Errorf("keep the catalog: %w", err)
	}
	k := kept{Database: database, Digest: digestOf(contents), Contents: contents, Writes: s.Writes}
	if s.Calibration != nil {
		if k.Calibration, err = json.Marshal(s.Calibration); err != nil {
			return fmt.Errorf("keep the calibration: %w", err)
		}
		k.CalibrationDigest = digestOf(k.Calibration)
	}
	if len(s.Calibrations) > 0 {
		if k.Calibrations, err = json.Marshal(s.Calibrations); err != nil {
			return fmt.Errorf("keep the calibrations: %w", err)
		}
		k.CalibrationsDigest = digestOf(k.Calibrations)
	}
	document, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("keep the catalog: %w", err)
	}
	if err := replaceFile(path, document); err != nil {
		return fmt.Errorf("keep the catalog in %s: %w", path, err)
	}
	return nil
}

// Kept reads the snapshot that Keep wrote. The error is an fs.ErrNotExist where there is none.
func Kept(path, database string) (s service.Snapshot, err error) {
	document, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	var k kept
	if err := json.Unmarshal(document, &k); err != nil {
		return s, fmt.Errorf("read the catalog in %s: %w", path, err)
	}
	if k.Database != database {
		return s, fmt.Errorf("the catalog in %s is that of %s, not of %s", path, k.Database, database)
	}
	if k.Digest != digestOf(k.Contents) || k.Calibration != nil && k.CalibrationDigest != digestOf(k.Calibration) ||
		k.Calibrations != nil && k.CalibrationsDigest != digestOf(k.Calibrations) {
		return s, fmt.Errorf("the catalog in %s was changed or damaged", path)
	}
	var c catalog.Contents
	if err := json.Unmarshal(k.Contents, &c); err != nil {
		return s, fmt.Errorf("read the catalog in %s: %w", path, err)
	}
	if k.Calibration != nil {
		if err := json.Unmarshal(k.Calibration, &s.Calibration); err != nil {
			return s, fmt.Errorf("read the calibration in %s: %w", path, err)
		}
	}
	if k.Calibrations != nil {
		if err := json.Unmarshal(k.Calibrations, &s.Calibrations); err != nil {
			return s, fmt.Errorf("read the calibrations in %s: %w", path, err)
		}
	}
	s.Catalog, s.Writes = &c, k.Writes
	return s, nil
}

func digestOf(contents []byte) string {
	sum := sha256.Sum256(contents)
	return hex.EncodeToString(sum[:])
}

// replaceFile puts a file in another's place at once, durably.
func replaceFile(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
