package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/vramplan/vramplan/service"
)

// calibrationFlag chooses the calibration of answers.
type calibrationFlag struct {
	Calibration string `placeholder:"ID|FILE" setting:"VRAMPLAN_CALIBRATION" help:"Answer with this calibration: the id of one of --server, or a file that calibrate show --output json made, which needs no service."`
}

// read is the calibration's id, and the calibration where it is in a file.
func (f *calibrationFlag) read(t *terminal) (id string, c *service.Calibration, err error) {
	if f.Calibration == "" {
		return "", nil, nil
	}
	text, err := t.readFile(f.Calibration)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(f.Calibration, `/\`) &&
		!strings.HasSuffix(f.Calibration, ".json") {
		return f.Calibration, nil, nil
	}
	if err != nil {
		return "", nil, usage("--calibration (VRAMPLAN_CALIBRATION): %v", err)
	}
	if err = json.Unmarshal(text, &c); err == nil {
		if c == nil {
			c = new(service.Calibration) // the file holds null
		}
		err = c.Usable()
	}
	if err != nil {
		return "", nil, usage("--calibration (VRAMPLAN_CALIBRATION) %s: %v", f.Calibration, err)
	}
	return c.ID, c, nil
}

// answerFlags choose who answers, and with which calibration.
type answerFlags struct {
	serverFlags     `embed:""`
	calibrationFlag `embed:""`
	hubFlag         `embed:""`
}

// asker is who answers, and what is added to the path of a request.
func (f *answerFlags) asker(t *terminal, path string) (*backend, string, error) {
	id, c, err := f.read(t)
	if err := errors.Join(err, f.locally(f.Server)); err != nil {
		return nil, "", err
	}
	b, err := f.backend(t)
	if f.Server == "" && c != nil {
		b = localBackend(t, service.EmbeddedCatalog(), c)
	}
	return b, pinning(path, id), err
}

// pinning adds the calibration to a path.
func pinning(path, id string) string {
	switch {
	case id == "":
		return path
	case strings.Contains(path, "?"):
		return fmt.Sprintf("%s&calibration=%s", path, url.QueryEscape(id))
	}
	return fmt.Sprintf("%s?calibration=%s", path, url.QueryEscape(id))
}
