// Package records reads what runs took out of the files that people keep it in: JSON, tables, summaries of jobstats.
package records

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Format is json or csv.
func Format(given, file string) string {
	switch {
	case given != "auto":
		return given
	case strings.EqualFold(filepath.Ext(file), ".csv"):
		return "csv"
	}
	return "json"
}

// Read turns a file into observations, one a line. Whether they are good is for the service to say.
func Read(content []byte, format string, job []byte) ([][]byte, error) {
	read := readJSON
	if format == "csv" {
		read = readCSV
	}
	records, err := read(content)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, errors.New("there are no records")
	}
	for i, record := range records {
		if records[i], err = complete(record, job); err != nil {
			return nil, fmt.Errorf("record %d: %w", i+1, err)
		}
	}
	return records, nil
}

// readJSON takes an array, one record, or several one after the other.
func readJSON(content []byte) ([][]byte, error) {
	var records [][]byte
	for d := json.NewDecoder(bytes.NewReader(content)); ; {
		var value json.RawMessage
		if err := d.Decode(&value); errors.Is(err, io.EOF) {
			return records, nil
		} else if err != nil {
			return nil, err
		}
		if value[0] != '[' {
			records = append(records, value)
			continue
		}
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return nil, err
		}
		for _, v := range list {
			records = append(records, v)
		}
	}
}

// shortColumns are columns of a table that have a name of their own; any other is a path into the
// observation, such as job.training.optimizer.
var shortColumns = map[string]string{
	"preset": "job.model.preset", "gpu": "job.gpus.0", "micro_batch": "job.training.micro_batch",
	"sequence_length":       "job.training.sequence_length",
	"gradient_accumulation": "job.training.gradient_accumulation", "precision": "job.training.precision",
	"optimizer":       "job.training.optimizer",
	"allocated_bytes": "measured.allocated_bytes", "reserved_bytes": "measured.reserved_bytes",
	"device_bytes": "measured.device_bytes", "out_of_memory": "measured.out_of_memory",
	"torch": "versions.torch", "cuda": "versions.cuda", "driver": "versions.driver",
}

// columnPath is a path that a column may have. The path language of sjson can do more, such as making
// a list of a million nulls to reach its last item.
var columnPath = regexp.MustCompile(`^[a-z_][A-Za-z0-9_-]*(\.([a-z_][A-Za-z0-9_-]*|[0-9]))*$`)

// isText says that the values of a path are texts, though they may look like numbers.
func isText(path string) bool {
	return strings.HasPrefix(path, "versions.") || path == "note" || path == "source" || path == "job.model.preset" ||
		path == "job.gpus.0"
}

// readCSV reads a table whose first line names the columns. An empty cell is a field that is not given.
func readCSV(content []byte) ([][]byte, error) {
	rows, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(content, []byte("\uFEFF")))).ReadAll()
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	paths := rows[0]
	for i, column := range paths {
		paths[i] = strings.TrimSpace(column)
		if long, ok := shortColumns[paths[i]]; ok {
			paths[i] = long
		}
		if !columnPath.MatchString(paths[i]) {
			return nil, fmt.Errorf("column %.100q is neither a name nor a path such as job.training.optimizer", column)
		}
	}
	var records [][]byte
	for n, row := range rows[1:] {
		record := []byte("{}")
		for i, cell := range row {
			path := paths[i]
			if cell = strings.TrimSpace(cell); cell == "" {
				continue
			}
			switch lower := strings.ToLower(cell); {
			case isText(path):
				record, err = sjson.SetBytes(record, path, cell)
			case lower == "true" || lower == "false":
				record, err = sjson.SetRawBytes(record, path, []byte(lower))
			case json.Valid([]byte(cell)):
				record, err = sjson.SetRawBytes(record, path, []byte(cell))
			default:
				record, err = sjson.SetBytes(record, path, cell)
			}
			if err != nil {
				return nil, fmt.Errorf("line %d, column %q: %w", n+2, path, err)
			}
		}
		records = append(records, record)
	}
	return records, nil
}

// complete makes an observation of a record, on one line. A summary of jobstats has the largest
// memory in use on each GPU of each node; the fullest card counts.
func complete(record, job []byte) ([]byte, error) {
	var err error
	if nodes := gjson.GetBytes(record, "nodes"); nodes.IsObject() {
		var most int64
		nodes.ForEach(func(_, node gjson.Result) bool {
			node.Get("gpu_used_memory").ForEach(func(_, used gjson.Result) bool {
				most = max(most, used.Int())
				return true
			})
			return true
		})
		if most == 0 {
			return nil, errors.New("the jobstats summary has no gpu_used_memory")
		}
		if record, err = sjson.SetBytes([]byte(`{"source": "jobstats"}`), "measured.device_bytes", most); err != nil {
			return nil, err
		}
	}
	if len(job) > 0 && !gjson.GetBytes(record, "job").Exists() {
		if record, err = sjson.SetRawBytes(record, "job", job); err != nil {
			return nil, err
		}
	}
	var line bytes.Buffer
	err = json.Compact(&line, record)
	return line.Bytes(), err
}
