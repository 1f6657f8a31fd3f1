package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strconv"
	"strings"
)

// usedMetric is what a card holds, in MiB: "Framebuffer memory used (in MiB)" of dcgm-exporter's
// etc/default-counters.csv.
const usedMetric = "DCGM_FI_DEV_FB_USED"

// maxUsedMiB is more than a card has. DCGM's blank values, 0x7ffffffffffffff0 and above for "not supported" and
// the like (dcgm_structs.h), lie beyond it.
const maxUsedMiB = 1 << 24

// maxSeconds is a time that no sample has, in the year 5138.
const maxSeconds = 1e11

// maxMeasured is of how many jobs peaks are held, and decisions; maxGPUsTold how many GPUs of a job are told apart.
const (
	maxMeasured = 1_000_000
	maxGPUsTold = 4096
)

// held is what the GPUs of a job were seen to hold.
type held struct {
	peak        int64  // bytes of the fullest GPU
	card        string // as the driver names it, with the slice; empty where there are several kinds
	kinds       int
	group       string // the namespace of a pod
	gpus        []uint64
	first, last float64
}

var seed = maphash.MakeSeed()

// series is who a value is about.
type series struct{ job, group, card, gpu string }

// label finds a job's series by the labels of dcgm-exporter: hpc_job where a folder of files maps GPUs to jobs
// (--hpc-job-mapping-dir), or the pod, whose own labels Prometheus renames where a scrape has such labels of its
// own.
func (f *Fleet) label(labels map[string]string) (s series, ok bool) {
	pick := func(names ...string) string {
		for _, name := range names {
			if labels[name] != "" {
				return labels[name]
			}
		}
		return ""
	}
	namespace := pick("exported_namespace", "namespace")
	pod := pick("exported_pod", "pod")
	switch {
	case labels[f.o.JobLabel] != "":
		s.job = labels[f.o.JobLabel]
	case pod != "":
		s.job, s.group = namespace+"/"+pod, namespace
	default:
		return s, false
	}
	s.card = labels["modelName"]
	if p := labels["GPU_I_PROFILE"]; p != "" && s.card != "" {
		s.card += "-MIG-" + p
	}
	s.gpu = pick("UUID", "Hostname", "instance") + "/" + labels["gpu"] + "/" + labels["GPU_I_ID"]
	return s, true
}

// see books one value of a series. at is its time in seconds, 0 where nobody says.
func (f *Fleet) see(s series, mib, at float64) error {
	h := f.held[s.job]
	if h == nil {
		if len(f.held) >= maxMeasured {
			return fmt.Errorf("more than %d jobs with a peak: give the files of fewer days at once", maxMeasured)
		}
		h = &held{group: s.group, card: s.card, kinds: 1}
		f.held[s.job] = h
	}
	if s.card != h.card {
		h.kinds++
		h.card = ""
	}
	h.peak = max(h.peak, int64(mib*(1<<20)))
	if at > 0 && at <= maxSeconds {
		if h.first == 0 {
			h.first = at
		}
		h.first, h.last = min(h.first, at), max(h.last, at)
	}
	if gpu := maphash.String(seed, s.gpu); len(h.gpus) < maxGPUsTold && !slices.Contains(h.gpus, gpu) {
		h.gpus = append(h.gpus, gpu)
	}
	return nil
}

// used reads a value of the metric.
func used(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= maxUsedMiB) {
		return 0, errors.New("the value is no MiB of a card; DCGM writes such figures where it has none")
	}
	return n, nil
}

// readExposition reads Prometheus' text format (prometheus.io/docs/instrumenting/exposition_formats): one scrape,
// or several one behind the other.
func (f *Fleet) readExposition(s *Source) error {
	return s.lines(func(place string, line []byte) error {
		text := string(line)
		if !strings.HasPrefix(text, usedMetric+"{") {
			s.Passed++
			return nil
		}
		labels, rest, err := readLabels(text[len(usedMetric)+1:])
		if err != nil {
			s.unreadable(place, "%v", err)
			return nil
		}
		fields := strings.Fields(rest)
		if len(fields) != 1 && len(fields) != 2 {
			s.unreadable(place, "no value, or more than a value and a time")
			return nil
		}
		mib, err := used(fields[0])
		if err != nil {
			s.unreadable(place, "%v", err)
			return nil
		}
		at := 0.0
		if len(fields) == 2 {
			ms, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				s.unreadable(place, "%.40q is no time in milliseconds", fields[1])
				return nil
			}
			at = float64(ms) / 1000
		}
		return f.take(s, labels, mib, at, place)
	})
}

// take books a value whose labels say whose it is.
func (f *Fleet) take(s *Source, labels map[string]string, mib, at float64, place string) error {
	of, ok := f.label(labels)
	if !ok {
		f.counts.WithoutJob++
		s.Passed++
		return nil
	}
	s.Read++
	if err := f.see(of, mib, at); err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return nil
}

// readLabels reads name="value" pairs up to the closing brace.
func readLabels(text string) (labels map[string]string, rest string, err error) {
	wrong := errors.New(`labels that are not name="value" and end with }`)
	labels = map[string]string{}
	for {
		text = strings.TrimLeft(text, " ,")
		if rest, ok := strings.CutPrefix(text, "}"); ok {
			return labels, rest, nil
		}
		name, after, ok := strings.Cut(text, `="`)
		if !ok {
			return nil, "", wrong
		}
		var value strings.Builder
		i := 0
		for ; i < len(after) && after[i] != '"'; i++ {
			b := after[i]
			if b == '\\' && i+1 < len(after) {
				i++
				if b = after[i]; b == 'n' {
					b = '\n'
				}
			}
			value.WriteByte(b)
		}
		if i >= len(after) {
			return nil, "", wrong
		}
		labels[strings.TrimSpace(name)] = value.String()
		text = after[i+1:]
	}
}

// result is one series of an answer.
type result struct {
	Metric map[string]string `json:"metric"`
	Values []sample          `json:"values"`
	Value  *sample           `json:"value"`
}

// sample is [seconds, "value"].
type sample struct {
	at    float64
	value string
}

// UnmarshalJSON reads the pair.
func (s *sample) UnmarshalJSON(text []byte) error {
	pair := []any{&s.at, &s.value}
	return json.Unmarshal(text, &pair)
}

// readQuery reads what Prometheus answers to a query (prometheus.io/docs/prometheus/latest/querying/api), series
// by series. A function such as max_over_time leaves out the metric's name, so a series without one is taken for
// what is asked for.
func (f *Fleet) readQuery(s *Source) error {
	in := &bounded{in: s.in}
	in.next()
	d := json.NewDecoder(in)
	n := 0
	err := toResult(d)
	for err == nil && d.More() {
		in.next()
		n++
		var r result
		if err = d.Decode(&r); err != nil {
			if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				s.unreadable(fmt.Sprintf("series %d", n), "%s is no part of a series", wrong.Value)
				err = nil
			}
			continue
		}
		if name, ok := r.Metric["__name__"]; ok && name != usedMetric {
			s.Passed++
			continue
		}
		if r.Value != nil {
			r.Values = append(r.Values, *r.Value)
		}
		if err := f.takeSeries(s, &r, n); err != nil {
			return fmt.Errorf("%s, %w", s.File, err)
		}
	}
	if err != nil {
		s.unreadable(fmt.Sprintf("behind series %d", n), "%v", err)
	}
	return nil
}

// takeSeries books the values of a series; it counts once, and so does what of it cannot be read.
func (f *Fleet) takeSeries(s *Source, r *result, n int) error {
	place := fmt.Sprintf("series %d", n)
	of, ok := f.label(r.Metric)
	if !ok {
		f.counts.WithoutJob++
		s.Passed++
		return nil
	}
	var bad error
	for _, v := range r.Values {
		mib, err := used(v.value)
		if err != nil {
			bad = err
			continue
		}
		if err := f.see(of, mib, v.at); err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
	}
	if bad != nil {
		s.unreadable(place, "%v", bad)
		return nil
	}
	s.Read++
	return nil
}

// toResult goes to the first series: {"status": "success", "data": {"resultType": "matrix", "result": [.
func toResult(d *json.Decoder) error {
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("no list of series")
			}
			return err
		}
		switch t {
		case json.Delim('{'):
			depth++
		case json.Delim('}'):
			depth--
		case "result":
			if depth == 2 {
				if t, err = d.Token(); err == nil && t != json.Delim('[') {
					err = errors.New("result is no list of series")
				}
				return err
			}
		}
	}
}
