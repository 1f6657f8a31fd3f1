package lengths

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Options say how samples are measured.
type Options struct {
	// Name is the file's, by whose end its form is known: .jsonl, .ndjson, .json or .csv; - is .jsonl.
	Name string
	// Fields are those of a sample that are trained on; those that data sets usually have where none are given.
	Fields []string
	// TokensPerCharacter turns text into tokens; 0 where samples hold their tokens.
	TokensPerCharacter float64
	// Progress, where it is there, is called after every so many samples.
	Progress func(samples int64)
}

// Bounds on what is read: a sample is held whole, and no model's sequence has more tokens than the job document takes.
const (
	mostSampleBytes = 64 << 20
	mostTokens      = 1 << 30
	progressEvery   = 100_000
)

// usual are the fields that data sets have for what is trained on, in the order in which they are looked for. Sources:
// trl 1.16, "Dataset formats and types"; LLaMA-Factory data/README.md (alpaca and sharegpt); input_ids is what
// tokenizers of transformers return.
var usual = [][]string{{"input_ids"}, {"messages"}, {"conversations"}, {"text"}, {"prompt", "completion"},
	{"instruction", "input", "output"}}

// Read measures every sample of a file. Errors name the place, what is there, and what is accepted.
func Read(r io.Reader, o Options) (*Histogram, error) {
	h := &Histogram{}
	m := measure{Options: o}
	add := func(where string, sample map[string]any) error {
		tokens, err := m.tokens(sample)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", o.Name, where, err)
		}
		h.Add(tokens)
		if o.Progress != nil && h.Samples%progressEvery == 0 {
			o.Progress(h.Samples)
		}
		return nil
	}
	var err error
	end := strings.ToLower(path.Ext(o.Name))
	switch {
	case o.Name == "-", end == ".jsonl", end == ".ndjson":
		err = readLines(r, o.Name, add)
	case end == ".json":
		err = readArray(r, o.Name, add)
	case end == ".csv":
		err = readCSV(r, o.Name, add)
	default:
		return nil, fmt.Errorf("%s: the form of a file is known by its end, and .jsonl, .ndjson, .json and .csv are read; "+
			"write it as one of them (datasets: to_json)", o.Name)
	}
	if err == nil && h.Samples == 0 {
		err = fmt.Errorf("%s: no samples", o.Name)
	}
	return h, err
}

type adder func(where string, sample map[string]any) error

func readLines(r io.Reader, name string, add adder) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), mostSampleBytes)
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var sample map[string]any
		if err := json.Unmarshal(text, &sample); err != nil || sample == nil {
			return fmt.Errorf("%s, line %d: %.40q is no JSON object; a line is a sample, such as {\"text\": \"…\"}", name, n,
				text)
		}
		if err := add(fmt.Sprintf("line %d", n), sample); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%s, line %d: longer than %d bytes, which a sample may have", name, n+1, mostSampleBytes)
	}
	return lines.Err()
}

func readArray(r io.Reader, name string, add adder) error {
	d := json.NewDecoder(r)
	if start, err := d.Token(); err != nil || start != json.Delim('[') {
		return fmt.Errorf("%s: a .json file is a list of samples, [{\"text\": \"…\"}, …]; a sample a line is .jsonl", name)
	}
	for n := 1; d.More(); n++ {
		var sample map[string]any
		if err := d.Decode(&sample); err != nil || sample == nil {
			return fmt.Errorf("%s, sample %d: no JSON object, such as {\"text\": \"…\"}", name, n)
		}
		if err := add(fmt.Sprintf("sample %d", n), sample); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("%s: the list of samples does not end; the file may be cut off", name)
	}
	return nil
}

func readCSV(r io.Reader, name string, add adder) error {
	rows := csv.NewReader(r)
	header, err := rows.Read()
	if err != nil {
		return fmt.Errorf("%s, line 1: no row of column names: %w", name, err)
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		line, _ := rows.FieldPos(0)
		sample := make(map[string]any, len(row))
		for i, cell := range row {
			sample[header[i]] = cell
		}
		if err := add(fmt.Sprintf("line %d", line), sample); err != nil {
			return err
		}
	}
}

// measure counts tokens.
type measure struct {
	Options
	sum   float64 // characters of the present sample
	count int64   // tokens of it that are there as tokens
}

func (m *measure) tokens(sample map[string]any) (int64, error) {
	fields := m.Fields
	if len(fields) == 0 {
		for _, set := range usual {
			if _, ok := sample[set[0]]; ok {
				fields = set
				break
			}
		}
	}
	if len(fields) == 0 {
		return 0, fmt.Errorf("the sample has the fields %s, and which of them are trained on is not known: name them with "+
			"--field", names(sample))
	}
	m.sum, m.count = 0, 0
	for i, f := range fields {
		v, ok := sample[f]
		if !ok && (len(m.Fields) > 0 || i == 0) {
			return 0, fmt.Errorf("no field %q; the sample has %s", f, names(sample))
		}
		if err := m.add(f, v); err != nil {
			return 0, err
		}
	}
	if m.sum > 0 && m.TokensPerCharacter <= 0 {
		return 0, errors.New("the sample is text, and how many tokens a character makes is not said: tokenize a few samples " +
			"and give --tokens-per-character, such as 0.25")
	}
	tokens := float64(m.count) + math.Ceil(m.sum*m.TokensPerCharacter)
	if tokens > mostTokens {
		return 0, fmt.Errorf("the sample has %.0f tokens, and %d is the most that is accepted", tokens, mostTokens)
	}
	return int64(tokens), nil
}

// add measures what a field holds: text, a list of tokens, or a conversation.
func (m *measure) add(field string, v any) error {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		m.sum += float64(utf8.RuneCountInString(v))
		return nil
	case []any:
		for _, one := range v {
			if _, number := one.(float64); number {
				m.count++
				continue
			}
			if err := m.add(field, one); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		for _, key := range []string{"content", "value", "text"} {
			if text, ok := v[key]; ok {
				return m.add(field, text)
			}
		}
		return fmt.Errorf("the field %q has an object with %s, and content, value or text is read", field, names(v))
	}
	return fmt.Errorf("the field %q is a %T; text, a list of tokens and a list of messages are read", field, v)
}

// names are the fields of a sample, the first few of them.
func names(sample map[string]any) string {
	list := slices.Sorted(maps.Keys(sample))
	if len(list) == 0 {
		return "none"
	}
	if len(list) > 8 {
		list = append(list[:8], "…")
	}
	return strings.Join(list, ", ")
}
