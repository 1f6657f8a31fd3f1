package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/workplace"
)

// batchBufferBytes is what one batch reads ahead.
const batchBufferBytes = 64 << 10

// estimateBatch answers many jobs.
//
//	@Summary		Estimate many jobs
//	@Description	One job a line in, one line a job out, in the same order, streamed: the first answers arrive while jobs are still being sent. A bad line gets a problem on its line, with the line's number in instance, and never fails the others. Blank lines are skipped. A JSON array of jobs is answered by a JSON array, in the same order and streamed likewise, with the element's number in instance. A job may have an `id` of the client's, a string or a number, which its answer or problem then has too.
//	@ID				estimateBatch
//	@Tags			estimates
//	@Accept			application/x-ndjson,json
//	@Produce		application/x-ndjson,json
//	@Param			jobs		body		string	false	"Jobs, one a line"
//	@Param			timeline	query		bool	false	"Add the live memory at every moment of the step"
//	@Param			tensors		query		bool	false	"Add the tensors that are alive at the peak"
//	@Param			brief		query		bool	false	"Answer with the peak and the verdicts of each job alone"
//	@Param			verdicts	query		bool	false	"Answer with the device figure and the verdicts of each job alone, which is quicker: the smallest limit is looked for no further than a verdict needs"
//	@Param			at_least	query		bool	false	"With verdicts: of a job that fits on none of its cards answer with the least that it takes, marked at_least, which is quicker again; its verdicts are the same"
//	@Param			calibration	query		string	false	"Answer with this calibration; the active one if not given"
//	@Success		200			{string}	string	"Results and problems, one a line"
//	@Failure		400,415,422,429,500,503	{object}	problem.Problem
//	@Router			/v1/estimate/batch [post]
func (a *API) estimateBatch() endpoint {
	return func(w http.ResponseWriter, r *http.Request, q query) (any, error) {
		o, err := estimateOptions(q)
		if err != nil {
			return nil, err
		}
		brief, err := q.flag("brief")
		if err != nil {
			return nil, err
		}
		verdicts, err := q.flag("verdicts")
		if err != nil {
			return nil, err
		}
		o.VerdictsOnly = verdicts
		if o.AtLeast, err = q.flag("at_least"); err != nil {
			return nil, err
		}
		if o.AtLeast && !verdicts {
			return nil, problem.New(problem.InvalidQuery, "at_least goes with verdicts=true, which is not given.")
		}
		if err := accept(r, "application/x-ndjson", "application/ndjson", "application/jsonl",
			"application/x-jsonlines", "application/json"); err != nil {
			return nil, err
		}
		if a.place.Full(clientOf(r.Context())) {
			return nil, a.shed("jobs")
		}
		if err := a.service.Pin(r.Context(), o.Calibration); err != nil {
			return nil, err
		}
		workplace.TakesLong(r.Context())
		booked := a.hold(w, true)
		defer booked.Release()
		if !booked.Take(batchBufferBytes) {
			return nil, a.shed("memory")
		}
		control := http.NewResponseController(w)
		// HTTP/1 servers otherwise stop reading the request at the first write.
		_ = control.EnableFullDuplex()
		_ = control.SetReadDeadline(time.Now().Add(a.limits.BodyTimeout))
		input := bufio.NewReaderSize(booked.Reader(r.Body), batchBufferBytes)
		jobs := jobsIn(input)
		w.Header().Set("Content-Type", jobs.mediaType())
		a.batch(w, r, control, booked, jobs, batchOptions{o, brief})
		return nil, nil
	}
}

// batchOptions are what every line of a batch is answered with.
type batchOptions struct {
	service.EstimateOptions
	// brief answers are the peak and the verdicts alone: a table of many jobs needs no more, and takes an eighth of the
	// bytes.
	brief bool
}

// briefly is a brief answer.
type briefly struct {
	Peak estimator.Peak     `json:"peak"`
	GPUs []estimator.GPUFit `json:"gpus"`
}

// verdict is an answer of verdicts alone.
type verdict struct {
	Peak devicePeak   `json:"peak"`
	GPUs []gpuVerdict `json:"gpus"`
}

type devicePeak struct {
	DeviceBytes int64 `json:"device_bytes"`
	// AtLeast says that the job fits nowhere and that DeviceBytes is the least that it takes.
	AtLeast bool `json:"at_least,omitempty"`
}

type gpuVerdict struct {
	GPU           string            `json:"gpu"`
	UsableBytes   int64             `json:"usable_bytes"`
	HeadroomBytes int64             `json:"headroom_bytes"`
	Verdict       estimator.Verdict `json:"verdict"`
}

func verdictOf(r *estimator.Result) verdict {
	v := verdict{Peak: devicePeak{r.Peak.DeviceBytes, r.AtLeast}, GPUs: make([]gpuVerdict, len(r.GPUs))}
	for i, g := range r.GPUs {
		v.GPUs[i] = gpuVerdict{g.GPU, g.UsableBytes, g.HeadroomBytes, g.Verdict}
	}
	return v
}

// line is one job of a batch on its way: done gets its answer.
type line struct {
	number int
	text   []byte
	// size is what the line took of the request, answered what its answer takes;
	// both are booked until it is written.
	size, answered int
	tooLong        bool
	// refused says why there is no job here.
	refused error
	done    chan []byte
}

// batch reads lines, works on a few at once and writes the answers in order. At
// most a few lines for each core are held at any moment, and all that are held are
// booked.
func (a *API) batch(w http.ResponseWriter, r *http.Request, control *http.ResponseController, booked *workplace.Holder,
	jobs jobsReader, o batchOptions) {
	ctx, stop := context.WithCancel(r.Context())
	r = r.WithContext(ctx)
	client := senderOf(r)
	workers := runtime.GOMAXPROCS(0)
	todo, inOrder := make(chan *line), make(chan *line, 4*workers)
	var running sync.WaitGroup
	var ended atomic.Bool // the input was read to its end
	defer func() {
		// The request must not be touched after its handler has returned. Where the
		// client is gone, the deadline ends a read that waits for it.
		stop()
		if !ended.Load() {
			_ = control.SetReadDeadline(time.Now())
		}
		running.Wait()
	}()
	for range workers {
		running.Go(func() {
			for l := range todo {
				l.done <- a.estimateLine(r, l, booked, jobs, o)
			}
		})
	}
	running.Go(func() {
		defer close(inOrder)
		defer close(todo)
		for number := 1; ; number++ {
			_ = control.SetReadDeadline(time.Now().Add(a.limits.BodyTimeout))
			l, err := jobs.next(number, booked)
			if errors.Is(err, io.EOF) {
				// net/http now reads behind the handler to see the client go; a
				// deadline that passed there would cancel this connection's requests.
				_ = control.SetReadDeadline(time.Time{})
				ended.Store(true)
			}
			if l != nil {
				if number > 1 && !a.place.Line(ctx, client) {
					return
				}
				for _, queue := range []chan *line{inOrder, todo} {
					select {
					case queue <- l:
					case <-ctx.Done():
						return
					}
				}
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					broken := &line{done: make(chan []byte, 1)}
					broken.done <- jobProblem(r, number, jobs, a.bodyProblem(err))
					select {
					case inOrder <- broken:
					case <-ctx.Done():
					}
				}
				return
			}
		}
	})
	written := 0
	for l := range inOrder {
		select {
		case answer := <-l.done:
			answer = jobs.frame(answer, written)
			written++
			if !a.place.Pace(ctx, client, len(answer)) {
				return
			}
			_ = control.SetWriteDeadline(time.Now().Add(a.limits.WriteTimeout))
			if _, err := w.Write(answer); err != nil {
				return
			}
			booked.Give(l.size + l.answered)
			if len(inOrder) == 0 {
				_ = control.Flush() // nothing more is on its way: let the client see what there is
			}
		case <-ctx.Done():
			return
		}
	}
	_, _ = w.Write(jobs.end(written)) // a client that is gone needs no end
}

// estimateLine is the answer to one line, with a line feed.
func (a *API) estimateLine(r *http.Request, l *line, booked *workplace.Holder, jobs jobsReader,
	o batchOptions) (answer []byte) {
	defer func() {
		if cause := recover(); cause != nil {
			a.panicked(r, cause, debug.Stack())
			answer = jobProblem(r, l.number, jobs, errPanicked)
		}
	}()
	if l.tooLong {
		return jobProblem(r, l.number, jobs, problem.New(problem.TooLarge, "The %s is longer than 1 MiB "+
			"(1048576 bytes).", jobs.unit()))
	}
	if l.refused != nil {
		return jobProblem(r, l.number, jobs, l.refused)
	}
	document, id, err := takeID(l.text)
	if err != nil {
		return jobProblem(r, l.number, jobs, err)
	}
	defer func() { answer = withID(answer, id) }()
	result, err := a.estimateDocument(r, document, o.EstimateOptions)
	if err != nil {
		return jobProblem(r, l.number, jobs, a.noted(r, err))
	}
	var said any = result
	switch {
	case o.VerdictsOnly:
		said = verdictOf(result)
	case o.brief:
		said = briefly{result.Peak, result.GPUs}
	}
	b, err := a.encode(r, said)
	if err != nil {
		return jobProblem(r, l.number, jobs, err)
	}
	defer b.release()
	if !booked.Take(b.Len()) {
		return jobProblem(r, l.number, jobs, a.shed("memory"))
	}
	l.answered = b.Len()
	return bytes.Clone(b.Bytes())
}

// jobProblem is what is wrong with a job of a batch, and lineProblem with a line of any.
func jobProblem(r *http.Request, number int, jobs jobsReader, err error) []byte {
	return placeProblem(r, jobs.unit(), number, err)
}

func lineProblem(r *http.Request, number int, err error) []byte {
	return placeProblem(r, "line", number, err)
}

func placeProblem(r *http.Request, unit string, number int, err error) []byte {
	p := *problem.From(err)
	p.Instance = clip(r.URL.Path) + "#" + unit + "=" + strconv.Itoa(number)
	if cause := p.Unwrap(); cause != nil {
		failure(r).Err(cause).Int("line", number).Str("code", p.Code).Msg("no answer")
	}
	return p.JSON()
}
