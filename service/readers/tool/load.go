package tool

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/shell"
)

// Load opens and decodes a configuration that a value names. It looks where the job runs and beside the file that names
// it.
func (r *Job) Load(v setting.Value) (s *setting.Settings, full string, err error) {
	if v.Unknown != "" {
		return nil, "", fmt.Errorf("%s", v.Unknown)
	}
	return r.LoadName(v.String(), r.Beside(v.Origin.At))
}

// Broken refuses a file that the tool could not read either.
func (r *Job) Broken(err error) bool {
	var wrong *decode.Error
	if !errors.As(err, &wrong) {
		return false
	}
	r.Out.Refuse("not-readable", setting.Span{File: wrong.File, Line: wrong.Line}, "%s", wrong.Say)
	return true
}

// NotThere refuses a job whose configuration cannot be read: nearly all of it is in that file.
func (r *Job) NotThere(v setting.Value, err error) {
	var written *shell.RewrittenError
	switch {
	case r.Broken(err):
	case errors.As(err, &written):
		r.Out.Refuse("missing-file", v.Origin.At, "%s", strings.ReplaceAll(written.Error(), written.Name,
			r.Files.Shown(written.Name)))
	case v.Unknown != "":
		r.Out.Refuse("missing-file", v.Origin.At, "which configuration it is cannot be told: %s", v.Unknown)
	default:
		r.Out.Refuse("missing-file", v.Origin.At, "the configuration %s is not there: hand it over too", v.String())
	}
}
