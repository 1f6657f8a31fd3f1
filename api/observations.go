package api

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

const (
	// maxObservationBytes is the longest observation. A config.json has one to six kilobytes, unless it names the
	// labels of a classifier.
	maxObservationBytes = 16 << 10
	// maxPageBytes is where a page of observations ends, however many were asked for.
	maxPageBytes = 1 << 20
)

func observationTooLarge(bytes int) error {
	return problem.New(problem.TooLarge, "The observation has %d bytes; accepted: up to %d. Leave out of hf_config "+
		"what names labels (id2label, label2id: num_labels says how many) and line breaks.", bytes, maxObservationBytes)
}

// observe stores what runs were measured to take.
//
//	@Summary		Report what a run took
//	@Description	A job and what it was measured to take: allocated, reserved or device bytes, or that it ran out of memory. Or many, one a line, as application/x-ndjson: each line of the answer is the observation or a problem, and a bad line does not keep the others from being stored. 201, and a line that is an observation, mean that it is durably stored. With an Idempotency-Key, sending it again stores it once (200); the lines of a batch have the keys KEY/1, KEY/2 and so on.
//	@ID				observe
//	@Tags			observations
//	@Accept			json,application/x-ndjson
//	@Produce		json,application/x-ndjson
//	@Security		key
//	@Param			Idempotency-Key	header		string				false	"Up to 200 printable characters that name this request"
//	@Param			observation		body		jobdoc.Observation	true	"The observation"
//	@Success		200				{object}	service.Observation
//	@Success		201				{object}	service.Observation
//	@Failure		400,401,403,408,413,415,422,429,500,503	{object}	problem.Problem
//	@Router			/v1/observations [post]
func (a *API) observe() endpoint {
	return func(w http.ResponseWriter, r *http.Request, _ query) (any, error) {
		by, err := a.author(r, service.ScopeObservationsWrite)
		if err != nil {
			return nil, err
		}
		key, err := idempotencyKey(r)
		if err != nil {
			return nil, err
		}
		body, release, err := a.readUpTo(w, r, maxBodyBytes, "application/json", "application/x-ndjson",
			"application/ndjson", "application/jsonl")
		if err != nil {
			return nil, err
		}
		defer release()
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); strings.HasSuffix(kind, "ndjson") ||
			strings.HasSuffix(kind, "jsonl") {
			return a.observeLines(r, by, key, bytes.Clone(body))
		}
		if len(body) > maxObservationBytes {
			return nil, observationTooLarge(len(body))
		}
		document, err := jobdoc.DecodeObservation(body)
		if err != nil {
			return nil, problem.Of(problem.InvalidObservation, err)
		}
		results, err := work(a, r, func(ctx context.Context) ([]service.Observed, error) {
			return a.service.Observe(ctx, by, []service.Sent{{Document: document, IdempotencyKey: key}})
		})
		if err != nil {
			return nil, err
		}
		switch o := results[0]; {
		case o.Err != nil:
			return nil, problem.Of(problem.InvalidObservation, o.Err)
		case o.Known:
			return o.Observation, nil
		default:
			return reply{status: http.StatusCreated, body: o.Observation}, nil
		}
	}
}

// observeLines answers a batch, a line for a line. Blank lines are skipped.
func (a *API) observeLines(r *http.Request, by service.Author, key string, body []byte) (any, error) {
	var sent []service.Sent
	var answers [][]byte
	var places, numbers []int // of sent, in answers and in the body
	number := 0
	for text := range bytes.Lines(body) {
		number++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if len(text) > maxObservationBytes {
			answers = append(answers, lineProblem(r, number, observationTooLarge(len(text))))
			continue
		}
		document, err := jobdoc.DecodeObservation(text)
		if err != nil {
			answers = append(answers, lineProblem(r, number, problem.Of(problem.InvalidObservation, err)))
			continue
		}
		own := ""
		if key != "" {
			own = key + "/" + strconv.Itoa(number)
		}
		sent = append(sent, service.Sent{Document: document, IdempotencyKey: own})
		places, numbers = append(places, len(answers)), append(numbers, number)
		answers = append(answers, nil)
	}
	results, err := work(a, r, func(ctx context.Context) ([]service.Observed, error) {
		return a.service.Observe(ctx, by, sent)
	})
	if err != nil {
		return nil, err
	}
	for i, o := range results {
		if o.Err != nil {
			answers[places[i]] = lineProblem(r, numbers[i], problem.Of(problem.InvalidObservation, o.Err))
			continue
		}
		b, err := encode(o.Observation)
		if err != nil {
			return nil, err
		}
		answers[places[i]] = bytes.Clone(b.Bytes())
		b.release()
	}
	return raw{contentType: "application/x-ndjson", body: bytes.Join(answers, nil)}, nil
}

// idempotencyKey is the client's name for a request.
func idempotencyKey(r *http.Request) (string, error) {
	const longest = 200
	key := r.Header.Get("Idempotency-Key")
	if len(key) > longest || strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }) {
		return "", problem.New(problem.InvalidQuery, "Idempotency-Key is %q; accepted: up to %d printable "+
			"ASCII characters.", clip(key), longest)
	}
	return key, nil
}

// ObservationList is a part of the observations.
type ObservationList struct {
	Observations []service.Observation `json:"observations"`
	// NextPageToken is there where older observations may follow.
	NextPageToken string `json:"next_page_token,omitempty"`
}

// listObservations lists what was measured.
//
//	@Summary		List observations
//	@Description	What runs were measured to take, the newest first, beside what was predicted when they came in. A page ends after a mebibyte, too. Where the database has API keys, this needs one with the scope observations:read or observations:write.
//	@ID				listObservations
//	@Tags			observations
//	@Produce		json
//	@Security		key
//	@Param			gpu			query		string	false	"Only this card, by any of its names"
//	@Param			family		query		string	false	"Only this family of models"
//	@Param			page_size	query		int		false	"How many; 100 if not given"	minimum(1) maximum(1000)
//	@Param			page_token	query		string	false	"next_page_token of the page before"
//	@Success		200			{object}	ObservationList
//	@Failure		400,401,403,429,500,503	{object}	problem.Problem
//	@Router			/v1/observations [get]
func (a *API) listObservations() endpoint {
	return func(_ http.ResponseWriter, r *http.Request, q query) (any, error) {
		by, err := a.reader(r, service.ScopeObservationsRead)
		if err != nil {
			return nil, err
		}
		filter, err := observationFilter(q)
		if err != nil {
			return nil, err
		}
		page, err := q.newestFirst()
		if err != nil {
			return nil, err
		}
		filter.Before, filter.Limit, filter.MaxBytes = page.token, page.limit, maxPageBytes
		list, more, err := a.service.Observations(r.Context(), filter)
		if err != nil {
			return nil, err
		}
		answer := ObservationList{Observations: list}
		if n := len(list); n == 0 {
			answer.Observations = []service.Observation{}
		} else if more {
			answer.NextPageToken = list[n-1].ID
		}
		for i := range list {
			list[i].By = by.sees(list[i].By)
		}
		return answer, nil
	}
}

// accuracy compares predictions with measurements.
//
//	@Summary		How predictions did
//	@Description	Predicted against measured, by card, family of models and release of PyTorch, over the newest 10,000 observations of all. Errors are predicted ÷ measured − 1. Quarantined observations are counted and left out; runs that ran out of memory say what does not fit, not how far a figure is off. With a calibration, before and after say how the built-in constants and that one did on the runs that it was fitted to, as worked out when it was fitted; what it is worth on others is in the calibration itself.
//	@ID				accuracy
//	@Tags			observations
//	@Produce		json
//	@Param			gpu		query		string	false	"Only this card, by any of its names"
//	@Param			family	query		string	false	"Only this family of models"
//	@Param			calibration	query	string	false	"Add what this calibration and the built-in constants say of the same runs"
//	@Success		200		{object}	service.Accuracy
//	@Failure		400,422,429,500,503	{object}	problem.Problem
//	@Router			/v1/accuracy [get]
func (a *API) accuracy() endpoint {
	return func(_ http.ResponseWriter, r *http.Request, q query) (any, error) {
		filter, err := observationFilter(q)
		if err != nil {
			return nil, err
		}
		pinned, err := q.calibration()
		if err != nil {
			return nil, err
		}
		return work(a, r, func(ctx context.Context) (*service.Accuracy, error) {
			return a.service.Accuracy(ctx, filter, service.AccuracyOptions{Calibration: pinned})
		})
	}
}

// observationFilter reads what both lists are narrowed by; the database takes no control characters.
func observationFilter(q query) (service.ObservationFilter, error) {
	for _, name := range []string{"gpu", "family"} {
		if value, given := q[name]; given && !printable(value) {
			return service.ObservationFilter{}, problem.New(problem.InvalidQuery, "%s is %q; accepted: printable text.",
				name, clip(value))
		}
	}
	return service.ObservationFilter{GPU: q["gpu"], Family: q["family"]}, nil
}
