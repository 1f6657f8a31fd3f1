package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Kinds of answers to a case that somebody wrote down what is right of.
const (
	right      = "right"
	asked      = "asked"
	refused    = "refused well"
	wrong      = "wrong"
	askedSaid  = "asked though said"
	refusedBad = "refused badly"
	toLookAt   = "to look at"
)

var kinds = []string{right, asked, refused, wrong, askedSaid, refusedBad, toLookAt}

// expected is what is right of a folder with a case, in its expected.json: the jobs that its files mean, what has to be
// asked for, or why there is none, with words of which a refusal has to have one.
type expected struct {
	Tool    string            `json:"tool"`
	Entry   string            `json:"entry"`
	Outcome string            `json:"outcome"` // job, ask, refuse, none
	Jobs    []json.RawMessage `json:"jobs"`
	Ask     []struct {
		Pointer string `json:"pointer"`
	} `json:"ask"`
	Refuse struct {
		Mention []string `json:"mention"`
	} `json:"refuse"`
	Accept   map[string][]json.RawMessage `json:"accept"`
	Optional []string                     `json:"optional"`
}

// reading is what vramplan read answers.
type reading struct {
	Jobs []struct {
		Reader    string          `json:"reader"`
		Document  json.RawMessage `json:"document"`
		Questions []struct {
			Pointer string `json:"pointer"`
		} `json:"questions"`
	} `json:"jobs"`
	Refusals []struct {
		Reader string `json:"reader"`
		Say    string `json:"say"`
	} `json:"refusals"`
}

// judged counts the kinds by the program that the files are of.
type judged map[string]map[string]int

func (j judged) add(program, kind string) {
	if j[program] == nil {
		j[program] = map[string]int{}
	}
	j[program][kind]++
}

func (j judged) write(out io.Writer) {
	fmt.Fprintf(out, "| program | %s |\n|---%s|\n", strings.Join(kinds, " | "), strings.Repeat("|---", len(kinds)))
	all := map[string]int{}
	for _, program := range slices.Sorted(maps.Keys(j)) {
		fmt.Fprintf(out, "| %s |", program)
		for _, kind := range kinds {
			fmt.Fprintf(out, " %d |", j[program][kind])
			all[kind] += j[program][kind]
		}
		fmt.Fprintln(out)
	}
	fmt.Fprint(out, "| all |")
	for _, kind := range kinds {
		fmt.Fprintf(out, " %d |", all[kind])
	}
	fmt.Fprintln(out)
}

// judgeFolder judges all cases of a folder that say what is right: folders with an expected.json, and the lines of a
// CASES.jsonl.
func judgeFolder(ctx context.Context, program, folder string, all judged, note func(string, ...any)) error {
	names, err := filepath.Glob(filepath.Join(folder, "*", "expected.json"))
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var want expected
		if err := json.Unmarshal(text, &want); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		kind, why, err := judgeExpected(ctx, program, filepath.Dir(name), &want)
		if err != nil {
			return err
		}
		all.add(want.Tool, kind)
		note("%s\t%s\t%s\n", filepath.Base(filepath.Dir(name)), kind, why)
	}
	return judgeLines(ctx, program, folder, all, note)
}

// asks runs vramplan in a directory; its exit status is no error.
func asks(ctx context.Context, program, dir string, args ...string) (code int, out, errs []byte, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		err = nil
	}
	if err != nil {
		return 0, nil, nil, fmt.Errorf("vramplan %s: %w", strings.Join(args, " "), err)
	}
	return cmd.ProcessState.ExitCode(), o.Bytes(), e.Bytes(), nil
}

func judgeExpected(ctx context.Context, program, dir string, want *expected) (kind, why string, err error) {
	_, out, errs, err := asks(ctx, program, dir, "read", want.Entry, "--at", ".", "-o", "json")
	if err != nil {
		return "", "", err
	}
	var got reading
	_ = json.Unmarshal(out, &got) // a refusal of the whole is text
	said := strings.ToLower(string(out) + string(errs))
	if want.Outcome == "refuse" || want.Outcome == "none" {
		switch {
		case len(got.Jobs) > 0:
			return wrong, "a job is claimed", nil
		case want.Outcome == "none" || slices.ContainsFunc(want.Refuse.Mention, func(word string) bool {
			return strings.Contains(said, strings.ToLower(word))
		}):
			return refused, "", nil
		}
		return refusedBad, "its kind is not named", nil
	}
	if len(got.Jobs) == 0 {
		return refusedBad, strings.TrimSpace(string(errs)), nil
	}
	if len(got.Jobs) != len(want.Jobs) {
		return wrong, fmt.Sprintf("%d jobs, %d are there", len(got.Jobs), len(want.Jobs)), nil
	}
	open := map[string]bool{}
	for _, a := range want.Ask {
		open[a.Pointer] = true
	}
	for i, job := range got.Jobs {
		for _, q := range job.Questions {
			if !open[q.Pointer] && !slices.ContainsFunc(append(slices.Collect(maps.Keys(open)), want.Optional...),
				func(p string) bool { return strings.HasPrefix(q.Pointer, p) || strings.HasPrefix(p, q.Pointer) }) {
				return askedSaid, q.Pointer, nil
			}
		}
		same, why, err := sameMemory(ctx, program, job.Document, want.Jobs[i], want)
		if err != nil || !same {
			return wrong, why, err
		}
	}
	if len(open) > 0 {
		return asked, "", nil
	}
	return right, "", nil
}

// tolerance is how far two estimates of one job may be apart: less than a real run and its replay.
const tolerance = 0.02

// sameMemory says whether two documents take the same on a card, the second in one of the ways that are right too. What
// is asked for, or may be left out, is taken from the one that says it.
func sameMemory(ctx context.Context, program string, got, want json.RawMessage, e *expected) (bool, string, error) {
	loose := slices.Clone(e.Optional)
	for _, a := range e.Ask {
		loose = append(loose, a.Pointer)
	}
	for _, pointer := range loose {
		path := strings.ReplaceAll(strings.Trim(pointer, "/"), "/", ".")
		if v := gjson.GetBytes(got, path); v.Exists() {
			want, _ = sjson.SetRawBytes(want, path, []byte(v.Raw))
		} else if v := gjson.GetBytes(want, path); v.Exists() {
			got, _ = sjson.SetRawBytes(got, path, []byte(v.Raw))
		}
	}
	for pointer := range e.Accept { // another value that is right too is as good as the one that is written down
		path := strings.ReplaceAll(strings.Trim(pointer, "/"), "/", ".")
		v := gjson.GetBytes(got, path)
		if v.Exists() && slices.ContainsFunc(e.Accept[pointer], func(raw json.RawMessage) bool {
			return bytes.Equal(compact(raw), compact([]byte(v.Raw)))
		}) {
			want, _ = sjson.SetRawBytes(want, path, []byte(v.Raw))
		}
	}
	a, errA, err := bytesOf(ctx, program, got)
	if err != nil {
		return false, "", err
	}
	b, errB, err := bytesOf(ctx, program, want)
	switch {
	case err != nil:
		return false, "", err
	case a == 0 && b == 0:
		return errA == errB, errA, nil
	case a == 0 || b == 0:
		return false, errA + errB, nil
	}
	apart := a/b - 1
	return apart < tolerance && apart > -tolerance, fmt.Sprintf("%+.1f %%", 100*apart), nil
}

func compact(text []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}

// fallbacks stand where neither document has a field that every job needs.
var fallbacks = map[string]any{"model.preset": "gpt2", "training.micro_batch": 1, "training.sequence_length": 1024}

// bytesOf is what a document takes on a large card; 0 and the reason where it has no answer.
func bytesOf(ctx context.Context, program string, doc json.RawMessage) (float64, string, error) {
	for path, value := range fallbacks {
		parent, _, _ := strings.Cut(path, ".")
		if parent == "model" && gjson.GetBytes(doc, "model").Exists() || gjson.GetBytes(doc, path).Exists() {
			continue
		}
		doc, _ = sjson.SetBytes(doc, path, value)
	}
	doc, _ = sjson.DeleteBytes(doc, "gpus")
	if gjson.GetBytes(doc, "training.distributed").Exists() &&
		!gjson.GetBytes(doc, "training.distributed.world_size").Exists() {
		doc, _ = sjson.SetBytes(doc, "training.distributed.world_size", 8)
	}
	file, err := os.CreateTemp("", "answered*.json")
	if err != nil {
		return 0, "", err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(doc); err != nil {
		return 0, "", err
	}
	if err := file.Close(); err != nil {
		return 0, "", err
	}
	_, out, errs, err := asks(ctx, program, "", "estimate", "-f", file.Name(), "--gpu", "b200", "-o", "json")
	return gjson.GetBytes(out, "peak.device_bytes").Float(), strings.TrimSpace(string(errs)), err
}

// line is a case of CASES.jsonl: a command, and in words what is right.
type line struct {
	ID      string `json:"id"`
	Command string `json:"command"`
	Want    string `json:"want"`
}

// fact finds a field with its value in what is right.
var fact = regexp.MustCompile(`\b(model|micro_batch|gradient_accumulation|base_precision) ([\w./-]*\w)`)

// judgeLines judges the cases of a CASES.jsonl, as far as their words say what is right.
func judgeLines(ctx context.Context, program, folder string, all judged, note func(string, ...any)) error {
	file, err := os.Open(filepath.Join(folder, "CASES.jsonl"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var c line
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		words := strings.Fields(c.Command)
		if len(words) < 2 || words[0] != "vramplan" {
			return fmt.Errorf("%s: %q is no command of vramplan", c.ID, c.Command)
		}
		code, out, errs, err := asks(ctx, program, filepath.Join(folder, c.ID), append(words[1:], "-o", "json")...)
		if err != nil {
			return err
		}
		kind, reader := judgeLine(words[1], code, out, c.Want)
		all.add(reader, kind)
		note("%s\t%s\twant: %s; got %d %.200s\n", c.ID, kind, c.Want, code, bytes.TrimSpace(errs))
	}
	return nil
}

func judgeLine(command string, code int, out []byte, want string) (kind, program string) {
	if command == "check" {
		denied := strings.Contains(want, "exit 1")
		switch {
		case code == 1 && denied:
			return wrong, "check"
		case strings.HasPrefix(want, "exit 3") && code != 3:
			return wrong, "check"
		case code == 3:
			return asked, "check"
		}
		return right, "check"
	}
	var got reading
	_ = json.Unmarshal(out, &got)
	program = "none"
	questions := 0
	for _, j := range got.Jobs {
		program = j.Reader
		questions += len(j.Questions)
	}
	if len(got.Jobs) == 0 && len(got.Refusals) > 0 && got.Refusals[0].Reader != "" {
		program = got.Refusals[0].Reader
	}
	mayAsk := strings.Contains(want, "ask") || strings.Contains(want, "question")
	mayRefuse := strings.Contains(want, "refus") || strings.Contains(want, "unknown program")
	switch {
	case len(got.Jobs) == 0 && mayRefuse:
		return refused, program
	case len(got.Jobs) == 0:
		return refusedBad, program
	case mayAsk && questions > 0:
		return asked, program
	case mayRefuse && !mayAsk && !strings.HasPrefix(want, "read"):
		return wrong, program
	}
	facts := fact.FindAllStringSubmatch(want, -1)
	if len(facts) == 0 {
		return toLookAt, program
	}
	document := string(got.Jobs[0].Document)
	for _, f := range facts {
		value := f[2]
		if !strings.Contains(document, `:"`+value+`"`) && !strings.Contains(document, `"`+f[1]+`":`+value) {
			return wrong, program
		}
	}
	return right, program
}
