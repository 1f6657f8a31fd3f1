package readers

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/shell"
)

// reading is one job on its way from settings to a draft.
type reading struct {
	*launch
	// s are the tool's settings: its command line over its file.
	s *setting.Settings
	d *draft
	// file is the tool's configuration, "" where there is none.
	file string
	// code is the program, where it could be opened.
	code *decode.Program
	// sharded is set where a launcher or a file deals the model out.
	sharded bool
	// ds is DeepSpeed's configuration.
	ds *setting.Settings
	// fresh is set where the model begins with random weights.
	fresh bool
	// seesImages is set where the model is a classifier of pictures.
	seesImages bool
	// loads is the function or class whose default is the type of a model that is loaded without one; "" where a tool
	// loads it in float32.
	loads string
	// unsaid says what was taken for that type, once a field rests on it; nil where nothing was.
	unsaid func()
	// assigned are files of assignments that the program runs, by their full names.
	assigned []string
	// beneath are the defaults of a tool that is known by how its file is named to it; nil otherwise.
	beneath *setting.Settings
	// compare holds the program that is started against those of the tool's releases, and is false where it is another
	// program; nil for tools whose programs nobody knows.
	compare func() bool
}

// alone is the launch of a file that was handed over without a command.
func alone(f *files) *launch {
	return &launch{command: command{
		files: f, dir: f.source.Dir, env: func(string) (word, bool) { return word{}, false },
		open: func(name string, dirs ...string) (string, []byte, error) {
			full, text, ok := f.find(name, dirs...)
			if !ok {
				return "", nil, missing(name)
			}
			return full, text, nil
		},
	}, own: setting.New()}
}

// load opens and decodes a configuration that a value names. It looks where the job runs and beside the file that names
// it.
func (r *reading) load(v setting.Value) (s *setting.Settings, full string, err error) {
	if v.Unknown != "" {
		return nil, "", fmt.Errorf("%s", v.Unknown)
	}
	return r.loadName(v.String(), r.beside(v.Origin.At))
}

// beside is the folder of the file that a place is in, "" for where the job runs.
func (l *launch) beside(at setting.Span) string {
	if at.File == "" {
		return l.dir
	}
	return path.Dir(l.files.full(at.File))
}

func (l *launch) loadName(name string, dirs ...string) (*setting.Settings, string, error) {
	full, text, err := l.open(name, dirs...)
	if text == nil && err != nil {
		return nil, full, err
	}
	if err != nil {
		l.asItLies(full, err)
	}
	s, decodeErr := decodeFile(full, l.files.shown(full), text)
	if decodeErr != nil {
		return nil, full, decodeErr
	}
	return s, full, nil
}

// asItLies notes that a file is read although the script may change it before the program does.
func (l *launch) asItLies(full string, err error) {
	l.notes = append(l.notes, strings.ReplaceAll(err.Error(), full, l.files.shown(full))+
		": it is read as it lies there")
}

// decodeFile decodes a configuration by its name and, where that says nothing, by what decodes. shown is the file in
// which its values stand.
func decodeFile(full, shown string, text []byte) (*setting.Settings, error) {
	switch path.Ext(full) {
	case ".toml":
		return decode.TOML(shown, text)
	case ".py":
		p, err := decode.Python(shown, text, "")
		if err != nil {
			return nil, err
		}
		return p.Values, nil
	case ".json":
		return decode.JSON(shown, text)
	case ".yaml", ".yml":
	default:
		if strings.HasPrefix(strings.TrimSpace(string(text)), "{") {
			return decode.JSON(shown, text)
		}
	}
	all, err := decode.YAML(shown, text)
	if err != nil {
		if s, jsonErr := decode.JSON(shown, text); jsonErr == nil {
			return s, nil
		}
		return nil, err
	}
	if len(all) == 0 {
		return setting.New(), nil
	}
	return all[0], nil
}

// broken refuses a file that the tool could not read either.
func (r *reading) broken(err error) bool {
	var wrong *decode.Error
	if !errors.As(err, &wrong) {
		return false
	}
	r.d.refuse("not-readable", setting.Span{File: wrong.File, Line: wrong.Line}, "%s", wrong.Say)
	return true
}

// notThere refuses a job whose configuration cannot be read: nearly all of it is in that file.
func (r *reading) notThere(v setting.Value, err error) {
	var written *shell.RewrittenError
	switch {
	case r.broken(err):
	case errors.As(err, &written):
		r.d.refuse("missing-file", v.Origin.At, "%s", strings.ReplaceAll(written.Error(), written.Name,
			r.files.shown(written.Name)))
	case v.Unknown != "":
		r.d.refuse("missing-file", v.Origin.At, "which configuration it is cannot be told: %s", v.Unknown)
	default:
		r.d.refuse("missing-file", v.Origin.At, "the configuration %s is not there: hand it over too", v.String())
	}
}

// finish adds what all tools have in common, after the tool's own reader.
func (r *reading) finish() {
	r.spread()
	if r.lost != "" {
		r.d.uncertain("", "the files that it names are those that lie here: %s", r.lost)
	}
	if r.maybe != "" {
		r.d.settle("", "the command runs: %s", r.maybe) // whether it does is a doubt of the command
	}
	for _, say := range r.taken {
		r.d.settle("", "%s", say)
	}
	for _, note := range r.notes {
		r.d.uncertain("", "%s", note)
	}
	if r.s != nil {
		r.d.overridden = append(r.d.overridden, r.s.Losers()...)
		r.unread(r.s)
	}
	r.launcherWords()
	r.ownCode()
	r.scheduledCards()
	r.apply()
	r.d.plainKind()
	if v, ok := r.d.fields["/training/micro_batch"]; ok && v.value == nil {
		r.d.drop("/training/micro_batch")
	}
	if !r.d.has("/training/micro_batch") {
		r.d.ask("/training/micro_batch", "How many sequences does one GPU take at a time?", "")
	}
	if !r.d.has("/model") {
		r.d.ask("/model", "Which model is trained?", "")
	}
	r.doubt()
}

// spread sets the number of GPUs: of a job that is dealt out, or that runs on several.
func (r *reading) spread() {
	if r.d.has("/training/distributed/world_size") {
		return
	}
	w := r.world()
	if n := r.files.source.GPUs; n > 0 {
		w = count{n: n, known: true,
			from: setting.Value{Any: n, Origin: setting.Origin{Kind: setting.Said, Key: "--gpus"}}}
	}
	sharded := r.d.has("/training/distributed")
	switch {
	case w.known && (w.n > 1 || sharded):
		from := w.from
		if from.Origin.Kind == "" {
			from.Origin = setting.Origin{Kind: setting.Derived, How: w.how}
		}
		r.d.put("/training/distributed/world_size", w.n, from)
		if !r.d.has("/training/distributed/data") && !r.sharded {
			r.d.derive("/training/distributed/data", "ddp", "%d processes, and nothing that deals the model out", w.n)
			r.findUnused()
		}
	case w.known:
	case sharded:
		r.d.ask("/training/distributed/world_size", "On how many GPUs does it run?", because(w))
	default:
		r.d.assume("/training/distributed/world_size", "one GPU: %s; --gpus N says otherwise", because(w))
	}
}

// findUnused reads ddp_find_unused_parameters of a job with adapters, of which it decides whether reentrant checkpoints
// run at all.
func (r *reading) findUnused() {
	if r.s == nil || !r.d.has("/training/lora") {
		return
	}
	if v, ok := r.s.Get("ddp_find_unused_parameters"); ok {
		if on, is := v.Bool(); is {
			r.d.put("/training/distributed/find_unused_parameters", on, v)
		}
	}
}

func because(c count) string {
	if at := c.at.Where(); at != "" {
		return c.why + " (" + at + ")"
	}
	return c.why
}

// unread asks about words that may change the memory and that nobody read; the others are listed.
func (r *reading) unread(s *setting.Settings) {
	ignore := set(r.files.source.Ignore...)
	for _, key := range s.Rest() {
		if i := strings.LastIndexByte(key, '.'); i > 0 && s.Has(key[:i]) &&
			strings.Trim(key[i+1:], "0123456789") == "" {
			continue // an element of a list, which is there as a whole
		}
		v, _ := s.Peek(key)
		name := strings.TrimLeft(v.Origin.Key, "-")
		if ignore[key] || ignore[name] || ignore[v.Origin.Key] || v.Off() || !mayChangeMemory(key, v) {
			r.d.ignored = append(r.d.ignored, v)
			continue
		}
		r.d.askWord(v)
	}
}
