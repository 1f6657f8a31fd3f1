package fleet

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// accountingCommand is what an operator asks Slurm. Times are UTC, in which records of decisions are. Fields and
// their forms: https://slurm.schedmd.com/sacct.html.
const accountingCommand = "TZ=UTC sacct --allusers --parsable2 --starttime=now-7days " +
	"--format=JobID,JobIDRaw,User,Account,Partition,State,Submit,ElapsedRaw,NTasks,ReqTRES,AllocTRES,TRESUsageInMax," +
	"TRESUsageInTot,Comment"

// columns of sacct's output, by lower-case names.
type columns map[string]int

// get is the cell of a column, empty where there is no such column.
func (c columns) get(cells []string, names ...string) string {
	for _, name := range names {
		if i, ok := c[name]; ok && cells[i] != "" {
			return strings.TrimSpace(cells[i])
		}
	}
	return ""
}

func (c columns) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, ok := c[name]; return ok })
}

// readHeader finds the columns, or says which are missing.
func readHeader(line string, by string) (columns, error) {
	c := columns{}
	for i, name := range strings.Split(line, "|") {
		c[strings.ToLower(strings.TrimSpace(name))] = i
	}
	var missing []string
	for _, needed := range [][]string{{"JobID", "JobIDRaw"}, {"User"}, {by}, {"State"}, {"AllocTRES"},
		{"ElapsedRaw", "Elapsed"}} {
		lower := make([]string, len(needed))
		for i, name := range needed {
			lower[i] = strings.ToLower(name)
		}
		if !c.has(lower...) {
			missing = append(missing, needed[0])
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("line 1: sacct's columns lack %s; ask for them: %s", strings.Join(missing, ", "),
			accountingCommand)
	}
	return c, nil
}

// steps is what the steps of a job say of the memory of its GPUs.
type steps struct {
	seen   bool  // at least one step has a figure
	peak   int64 // of the fullest GPU
	untold bool  // a figure is of several GPUs together
}

// readAccounting goes through jobs, each with the rows of its steps behind it.
func (f *Fleet) readAccounting(s *Source) error {
	var c columns
	var header string
	var width int
	var at string    // the id of the job that is read
	var present *job // nil where its steps are of no use
	var of steps
	flush := func() {
		if present != nil {
			present.steps = of
			f.add(present)
		}
		present, of = nil, steps{}
	}
	err := s.lines(func(place string, line []byte) error {
		text := string(line)
		if c == nil {
			var err error
			header, width = text, strings.Count(text, "|")+1
			c, err = readHeader(text, f.o.By)
			return err
		}
		if text == header { // files of several days may stand one behind the other
			return nil
		}
		cells := strings.Split(text, "|")
		if len(cells) != width {
			s.unreadable(place, "%d columns, and the first line names %d; a job's name or comment may have a |", len(cells),
				width)
			return nil
		}
		id := c.get(cells, "jobidraw", "jobid")
		whole, step, isStep := strings.Cut(id, ".")
		if !isStep {
			flush()
			at = whole
			var err error
			if present, err = f.readJob(c, cells, whole); err != nil {
				s.unreadable(place, "%v", err)
				present = nil
				return nil
			}
			s.Read++
			return nil
		}
		if whole != at {
			s.unreadable(place, "a step (.%.20s) without its job above it", step)
			return nil
		}
		s.Read++
		if present != nil {
			if err := of.add(c, cells, present.gpus); err != nil {
				s.unreadable(place, "%v", err)
			}
		}
		return nil
	})
	flush()
	if err == nil && c == nil {
		err = fmt.Errorf("%s: empty", s.File)
	}
	return err
}

// The states of jobs that have ended (sacct(1), JOB STATE CODES), and of those that have not. What is not among
// them is not known.
var (
	ended = []string{"COMPLETED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED", "NODE_FAIL", "PREEMPTED", "DEADLINE",
		"BOOT_FAIL"}
	notEnded = []string{"RUNNING", "PENDING", "SUSPENDED", "REQUEUED", "RESIZING", "REVOKED", "COMPLETING", "CONFIGURING",
		"STOPPED", "SIGNALING", "STAGE_OUT", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)

// readJob reads the row of a job. It is nil where there is nothing to say of it, which is counted.
func (f *Fleet) readJob(c columns, cells []string, id string) (*job, error) {
	state, _, _ := strings.Cut(strings.TrimRight(c.get(cells, "state"), "+"), " ") // CANCELLED by 1000
	switch {
	case slices.Contains(notEnded, state):
		f.counts.NotEnded++
		return nil, nil
	case !slices.Contains(ended, state):
		return nil, fmt.Errorf("the state %.40q is none of sacct's", state)
	}
	gpus, types, err := gpusOf(c.get(cells, "alloctres"))
	if err != nil {
		return nil, fmt.Errorf("AllocTRES: %w", err)
	}
	if gpus == 0 {
		f.counts.WithoutGPUs++
		return nil, nil
	}
	seconds, err := elapsed(c.get(cells, "elapsedraw", "elapsed"))
	if err != nil {
		return nil, err
	}
	j := &job{id: id, user: c.get(cells, "user"), group: c.get(cells, strings.ToLower(f.o.By)), state: state, gpus: gpus,
		hours: seconds / 3600, partition: c.get(cells, "partition"), comment: c.get(cells, "comment")}
	if len(types) == 0 {
		if _, types, err = gpusOf(c.get(cells, "reqtres")); err != nil {
			return nil, fmt.Errorf("ReqTRES: %w", err)
		}
	}
	j.types = types
	j.submitted, _ = parseTime(c.get(cells, "submit")) // without it no decision is found by its time
	return j, nil
}

// add takes one row of a step. What TRESUsageInMax says of gres/gpumem is of the task that held most, summed over
// the GPUs of its processes: it is one GPU's where the job has one and the step one task, or where every GPU has a
// task of its own. With several tasks on one GPU their sum, in TRESUsageInTot, is what the GPU held at most.
func (s *steps) add(c columns, cells []string, gpus int64) error {
	most, ok, err := memoryOf(c.get(cells, "tresusageinmax"))
	if err != nil || !ok {
		return err
	}
	s.seen = true
	if most == 0 {
		return nil
	}
	tasks := int64(1)
	if n := c.get(cells, "ntasks"); n != "" {
		if tasks, err = strconv.ParseInt(n, 10, 64); err != nil || tasks < 1 {
			return fmt.Errorf("NTasks is %.20q", n)
		}
	}
	switch {
	case gpus == 1 && tasks > 1:
		total, ok, err := memoryOf(c.get(cells, "tresusageintot"))
		if err != nil || !ok {
			s.untold = true
			return err
		}
		most = max(most, total)
	case gpus > 1 && tasks != gpus:
		s.untold = true
		return nil
	}
	s.peak = max(s.peak, most)
	return nil
}

// gpusOf reads the GPUs of a list of trackable resources, such as
// billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,node=1.
func gpusOf(tres string) (n int64, types []string, err error) {
	var typed int64
	for entry := range strings.SplitSeq(tres, ",") {
		name, value, _ := strings.Cut(entry, "=")
		kind, ok := strings.CutPrefix(name, "gres/gpu")
		if !ok || kind != "" && !strings.HasPrefix(kind, ":") {
			continue
		}
		count, err := strconv.ParseInt(value, 10, 64)
		if err != nil || count < 0 || count > maxGPUs {
			return 0, nil, fmt.Errorf("%.40q is no count of GPUs", entry)
		}
		switch {
		case count == 0:
		case kind == "":
			n = count
		default:
			typed += count
			types = append(types, kind[1:])
		}
	}
	return max(n, typed), types, nil
}

// maxGPUs and maxBytes are more than any job and any card has.
const (
	maxGPUs  = 1 << 20
	maxBytes = 1 << 50
)

// memoryOf is gres/gpumem of a list of trackable resources; ok is false where the list has none.
func memoryOf(tres string) (bytes int64, ok bool, err error) {
	for entry := range strings.SplitSeq(tres, ",") {
		value, ok := strings.CutPrefix(entry, "gres/gpumem=")
		if !ok {
			continue
		}
		bytes, err := sizeOf(value)
		if err != nil {
			return 0, false, fmt.Errorf("gres/gpumem=%.20s: %w", value, err)
		}
		return bytes, true, nil
	}
	return 0, false, nil
}

// sizeOf reads 38888M, 4G or 36.5G, in powers of 1,024. A figure without a unit is of bytes (--noconvert), unless
// it is so small that it may be of anything.
func sizeOf(text string) (int64, error) {
	unit := 1.0
	if text != "" {
		if i := strings.IndexByte("KMGTP", text[len(text)-1]); i >= 0 {
			unit = math.Pow(1024, float64(i+1))
			text = text[:len(text)-1]
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	switch bytes := n * unit; {
	case err != nil || !(bytes >= 0 && bytes <= maxBytes):
		return 0, fmt.Errorf("no size such as 38888M")
	case unit == 1 && bytes > 0 && bytes < 1<<20:
		return 0, fmt.Errorf("a size without a unit; run sacct without --noconvert")
	default:
		return int64(bytes), nil
	}
}

// elapsed reads seconds, or [DD-[HH:]]MM:SS.
func elapsed(text string) (seconds float64, err error) {
	wrong := fmt.Errorf("the elapsed time %.40q is neither seconds nor [DD-[HH:]]MM:SS", text)
	days, clock, ok := strings.Cut(text, "-")
	if !ok {
		days, clock = "0", text
	}
	d, err := strconv.ParseUint(days, 10, 20)
	if err != nil {
		return 0, wrong
	}
	parts := strings.Split(clock, ":")
	if len(parts) > 3 {
		return 0, wrong
	}
	for _, part := range parts {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil || !(n >= 0 && n < 1<<40) {
			return 0, wrong
		}
		seconds = 60*seconds + n
	}
	if ok && len(parts) < 3 { // DD-HH:MM is none of its forms
		return 0, wrong
	}
	return seconds + float64(d)*86400, nil
}

// parseTime reads a time as sacct writes it, in UTC, or seconds since 1970 (SLURM_TIME_FORMAT=%s).
func parseTime(text string) (time.Time, bool) {
	if t, err := time.Parse("2006-01-02T15:04:05", text); err == nil {
		return t, true
	}
	n, err := strconv.ParseUint(text, 10, 40)
	return time.Unix(int64(n), 0).UTC(), err == nil
}
