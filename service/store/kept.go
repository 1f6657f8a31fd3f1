package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vramplan/vramplan/service/catalog"
)

// kept is a catalog in a file, for a start while the database is gone.
type kept struct {
	// Database is where the catalog is from: that of another is not used.
	Database string `json:"database"`
	// Digest is the SHA-256 of Contents.
	Digest   string          `json:"digest"`
	Contents json.RawMessage `json:"contents"`
}

// Keep writes a catalog to a file. The file is the old one or the new one, never a part.
func Keep(path, database string, c *catalog.Contents) error {
	contents, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("keep the catalog: %w", err)
	}
	document, err := json.Marshal(kept{Database: database, Digest: digestOf(contents), Contents: contents})
	if err != nil {
		return fmt.Errorf("keep the catalog: %w", err)
	}
	if err := replaceFile(path, document); err != nil {
		return fmt.Errorf("keep the catalog in %s: %w", path, err)
	}
	return nil
}

// Kept reads the catalog that Keep wrote. The error is an fs.ErrNotExist where there is none.
func Kept(path, database string) (*catalog.Contents, error) {
	document, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var k kept
	if err := json.Unmarshal(document, &k); err != nil {
		return nil, fmt.Errorf("read the catalog in %s: %w", path, err)
	}
	if k.Database != database {
		return nil, fmt.Errorf("the catalog in %s is that of %s, not of %s", path, k.Database, database)
	}
	if k.Digest != digestOf(k.Contents) {
		return nil, fmt.Errorf("the catalog in %s was changed or damaged", path)
	}
	var c catalog.Contents
	if err := json.Unmarshal(k.Contents, &c); err != nil {
		return nil, fmt.Errorf("read the catalog in %s: %w", path, err)
	}
	return &c, nil
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
