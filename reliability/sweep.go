package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/reliability/meter"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/workplace"
)

// sweptMemory is the address space that a process under the sweep has, of which Go's runtime reserves some without
// using it. What appends without end meets it within seconds.
const sweptMemory = 4 << 30

// silence is for how long a swept process may say nothing: far longer than the dearest request that is admitted takes
// on a busy machine.
const silence = 2 * time.Minute

// sweeping is which of the wrong documents are asked about: all with one wrong value, or so many of them at random, and
// so many with two.
type sweeping struct {
	singles, pairs int
	seed           uint64
}

// sweptQuestion is one document that is asked about.
type sweptQuestion struct {
	i    int
	name string
	body []byte
	// right says that nothing was made wrong in it, and that it is answered.
	right bool
}

// asked calls do with each document, the right ones first and the others in an order that the seed decides, as long as
// do wants more.
func (s sweeping) asked(do func(sweptQuestion) bool) error {
	documents, err := sweptDocuments()
	if err != nil {
		return err
	}
	var singles [][2]int
	for d := range documents {
		for i := range documents[d].Singles() {
			singles = append(singles, [2]int{d, i})
		}
	}
	random := rand.New(rand.NewPCG(s.seed, 0))
	random.Shuffle(len(singles), func(i, j int) { singles[i], singles[j] = singles[j], singles[i] })
	if s.singles > 0 {
		singles = singles[:min(s.singles, len(singles))]
	}
	i := 0
	ask := func(name string, body []byte, right bool) bool {
		i++
		return do(sweptQuestion{i: i - 1, name: name, body: body, right: right})
	}
	for _, d := range documents {
		if !ask(d.Name, d.Right(), d.answered) {
			return nil
		}
	}
	for _, one := range singles {
		d := &documents[one[0]]
		if !ask(d.Name, d.Single(one[1]), false) {
			return nil
		}
	}
	for range s.pairs {
		d := &documents[random.IntN(len(documents))]
		if !ask(d.Name, d.Pair(random), false) {
			return nil
		}
	}
	return nil
}

// sweep sets every key of every model type, and every field of jobs, to every kind of wrong value, and asks about what
// comes of it: a service in as many processes as there are cores, and the command line. None may end, answer a
// fault of its own, or take more than its bound.
func sweep(ctx context.Context, out io.Writer, program string, s sweeping) error {
	parts := runtime.NumCPU()
	found := make([]swept, parts)
	var group sync.WaitGroup
	for k := range parts {
		group.Go(func() { found[k] = sweepPart(ctx, s, k, parts) })
	}
	group.Wait()
	var all swept
	for _, f := range found {
		all.add(f)
	}
	all.add(sweepCommand(ctx, program, s))
	if err := ctx.Err(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d documents, seed %d: %v; %d processes ended; %d faults\n", all.documents, s.seed, all.statuses,
		all.ended, len(all.faults))
	const shown = 20
	return errors.Join(all.faults[:min(shown, len(all.faults))]...)
}

// swept is what a sweep found.
type swept struct {
	documents, ended int
	statuses         map[string]int
	faults           []error
}

func (s *swept) add(o swept) {
	s.documents += o.documents
	s.ended += o.ended
	s.faults = append(s.faults, o.faults...)
	for status, n := range o.statuses {
		s.count(status, n)
	}
}

func (s *swept) count(status string, n int) {
	if s.statuses == nil {
		s.statuses = map[string]int{}
	}
	s.statuses[status] += n
}

func (s *swept) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Errorf(format, args...))
}

// sweepPart has the k-th of so many parts asked in a process of its own; where one ends, the next begins behind the
// document that ended it.
func sweepPart(ctx context.Context, s sweeping, k, parts int) (found swept) {
	self, err := os.Executable()
	if err != nil {
		found.fault("%w", err)
		return found
	}
	const mostEnded = 50
	for from := 0; ctx.Err() == nil && found.ended < mostEnded; {
		child := exec.CommandContext(ctx, self, "sweep-part", "-singles", strconv.Itoa(s.singles), "-pairs",
			strconv.Itoa(s.pairs), "-seed", strconv.FormatUint(s.seed, 10), "-part", strconv.Itoa(k), "-parts",
			strconv.Itoa(parts), "-from", strconv.Itoa(from))
		var said bytes.Buffer
		child.Stderr = &said
		lines, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			found.fault("%w", err)
			return found
		}
		quiet := time.AfterFunc(silence, func() { _ = child.Process.Kill() })
		begun := -1
		var document string
		scan := bufio.NewScanner(lines)
		scan.Buffer(nil, 1<<24)
		for scan.Scan() {
			quiet.Reset(silence)
			var line sweptLine
			if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
				found.fault("a swept process said %.200q: %w", scan.Bytes(), err)
				continue
			}
			if line.Status == 0 {
				begun, document = line.I, line.Name+": "+line.Body
				continue
			}
			found.documents++
			found.count(strconv.Itoa(line.Status), 1)
			if line.Fault != "" {
				found.fault("%s\n%s", line.Fault, document)
			}
		}
		err = child.Wait()
		quiet.Stop()
		if err == nil || ctx.Err() != nil {
			return found
		}
		found.ended++
		found.fault("the process ended, %w: %.300s\n%s", err, said.Bytes(), document)
		if begun < 0 {
			return found
		}
		from = begun + 1
	}
	return found
}

// sweptLine is what a swept process says: before a request its number and document, after it the status and what is
// wrong with it.
type sweptLine struct {
	I      int    `json:"i"`
	Name   string `json:"name,omitempty"`
	Body   string `json:"body,omitempty"`
	Status int    `json:"status,omitempty"`
	Fault  string `json:"fault,omitempty"`
}

// planned is of how many documents one is asked a plan of, which takes many estimates.
const planned = 40

// answerSweep is the process under the sweep: a service that asks itself.
func answerSweep(ctx context.Context, out io.Writer, s sweeping, part, parts, from int) error {
	if err := limitMemory(); err != nil {
		return err
	}
	var m meter.Meter
	silent := zerolog.New(io.Discard)
	h := api.New(service.New(service.EmbeddedCatalog(), service.WithCost(m.Tell),
		service.WithLimits(workplace.Limits{ReplayBytes: besiegedReplay, RequestTimeout: time.Minute})),
		api.Options{Logger: &silent})
	say := json.NewEncoder(out)
	return s.asked(func(q sweptQuestion) bool {
		if q.i%parts != part || q.i < from {
			return true
		}
		path := "/v1/estimate"
		if q.i/parts%planned == 0 && !q.right {
			path = "/v1/plan?brief=true"
		}
		if say.Encode(sweptLine{I: q.i, Name: q.name + " " + path, Body: string(q.body)}) != nil {
			return false
		}
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1"+path, bytes.NewReader(q.body))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		m.Begin()
		h.ServeHTTP(w, r)
		line := sweptLine{I: q.i, Status: w.Code}
		switch over := m.End(len(q.body), w.Body.Len()); {
		case over != nil:
			line.Fault = over.Error()
		case w.Code >= http.StatusInternalServerError, q.right && w.Code != http.StatusOK:
			line.Fault = fmt.Sprintf("status %d: %s", w.Code, w.Body)
		case w.Code == http.StatusOK && path == "/v1/estimate":
			line.Fault = unsound(w.Body.Bytes())
		}
		return say.Encode(line) == nil && ctx.Err() == nil
	})
}

// unsound says what cannot be of an answer; nothing of a sound one.
func unsound(answer []byte) string {
	var r estimator.Result
	if err := json.Unmarshal(answer, &r); err != nil {
		return err.Error()
	}
	const most = 1 << 60 // far beyond what jobs are accepted of
	p, sum := r.Peak, int64(0)
	for _, c := range r.Components {
		if sum += c.Bytes; c.Bytes < 0 {
			return fmt.Sprintf("%s holds %d bytes", c.Name, c.Bytes)
		}
	}
	if !(0 < p.LowBytes && p.LowBytes <= p.DeviceBytes && p.DeviceBytes <= p.HighBytes && p.HighBytes < most) ||
		sum != p.DeviceBytes || p.AllocatedBytes < 0 {
		return fmt.Sprintf("a peak of %+v, of which the parts are %d", p, sum)
	}
	return ""
}

// limitMemory takes the process's address space down to what a sweep allows.
func limitMemory() error {
	limit := syscall.Rlimit{Cur: sweptMemory, Max: sweptMemory}
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &limit); err != nil {
		return fmt.Errorf("limit the memory: %w", err)
	}
	return nil
}

// sweepCommand asks the command line about one in ten of the documents, a line each in one file, under the same limit.
func sweepCommand(ctx context.Context, program string, s sweeping) (found swept) {
	dir, err := os.MkdirTemp("", "vramplan-sweep-")
	if err != nil {
		found.fault("%w", err)
		return found
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if program == "" {
		program = filepath.Join(dir, "vramplan")
		if err := buildVramplan(ctx, program); err != nil {
			found.fault("%w", err)
			return found
		}
	}
	const every = 10
	var lines [][]byte
	if err := s.asked(func(q sweptQuestion) bool {
		if q.i%every == 0 {
			lines = append(lines, q.body)
		}
		return true
	}); err != nil {
		found.fault("%w", err)
		return found
	}
	for ctx.Err() == nil && len(lines) > 0 {
		file := filepath.Join(dir, "jobs.ndjson")
		if err := os.WriteFile(file, bytes.Join(lines, []byte("\n")), 0o600); err != nil {
			found.fault("%w", err)
			return found
		}
		limited := fmt.Sprintf("ulimit -v %d; exec \"$0\" estimate -f \"$1\" --output json", sweptMemory>>10)
		command := exec.CommandContext(ctx, "sh", "-c", limited, program, file)
		var said bytes.Buffer
		command.Stderr = &said
		answers, err := command.Output()
		answered := slices.Collect(bytes.Lines(answers))
		found.documents += len(answered)
		for i, a := range answered {
			status := "answered"
			var problem struct {
				Code   string `json:"code"`
				Status int    `json:"status"`
			}
			if json.Unmarshal(a, &problem) == nil && problem.Code != "" {
				status = "refused"
				if problem.Status >= http.StatusInternalServerError {
					found.fault("vramplan estimate: %s\n%s", a, lines[i])
				}
			}
			found.count("command line "+status, 1)
		}
		if len(answered) >= len(lines) {
			return found
		}
		found.ended++
		found.fault("vramplan estimate ended, %w: %.300s\n%s", err, said.String(), lines[len(answered)])
		lines = lines[len(answered)+1:]
	}
	return found
}
