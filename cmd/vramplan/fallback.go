package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/catalog"
)

// checkServerFlags are those of a command that somebody waits for: a service has a tenth of a
// second, and whatever it does not answer in time is answered here.
type checkServerFlags struct {
	Server  string        `placeholder:"URL" setting:"VRAMPLAN_SERVER" help:"Ask this service first, and answer locally where it does not."`
	Timeout time.Duration `default:"100ms" setting:"VRAMPLAN_TIMEOUT" help:"How long an answer of --server may take."`

	calibrationFlag `embed:""`
	hubFlag         `embed:""`
}

// decider asks a service where there is one, and this process where there is none
// or none that answers.
type decider struct {
	server *backend // nil without --server
	local  *backend
	// failed is the first reason why the service was not asked any more.
	failed atomic.Pointer[string]
}

// decider is who answers. A calibration that is named is for answers of this process, which a service's own would be
// without it; a service answers with the one that is active there.
func (f *checkServerFlags) decider(t *terminal, c *catalog.Catalog) (*decider, error) {
	id, with, err := f.read(t)
	if err != nil {
		return nil, err
	}
	if with == nil && id != "" && id != estimator.Calibration {
		return nil, usage("--calibration (VRAMPLAN_CALIBRATION) %s is not a file: check answers by itself where its "+
			"service does not", id)
	}
	d := &decider{local: localBackend(t, c, with)}
	if f.Server == "" {
		return d, nil
	}
	flags := serverFlags{Server: f.Server, Timeout: f.Timeout}
	server, err := flags.backend(t)
	d.server = server
	return d, err
}

// post sends a document to the service, and answers it locally if that fails. A service that
// failed once is not waited for again.
func (d *decider) post(ctx context.Context, path string, doc document) ([]byte, error) {
	if d.server == nil || d.failed.Load() != nil {
		return d.local.post(ctx, path, doc)
	}
	body, err := d.server.post(ctx, path, doc)
	if err == nil {
		err = answers(path, doc, body)
	}
	if err == nil {
		return body, nil
	}
	if p, refused := asProblem(err); refused && p.decides() || ctx.Err() != nil {
		return nil, err
	}
	why := err.Error()
	d.failed.CompareAndSwap(nil, &why)
	return d.local.post(ctx, path, doc)
}

var verdicts = []estimator.Verdict{estimator.Fits, estimator.Tight, estimator.Unlikely, estimator.DoesNotFit,
	estimator.Unknown}

// answers says why what came with status 200 is not what vramplan answers to a document: a page of somebody else, {},
// or an estimate that judges none of the cards that were asked about. A gate that believed it would let every job in.
func answers(path string, doc document, body []byte) error {
	foreign := func(what string) error {
		return fmt.Errorf("what it sent is not an answer of vramplan: %s", what)
	}
	if path != "/v1/estimate" {
		var plan planner.Plan
		switch err := json.Unmarshal(body, &plan); {
		case err != nil:
			return foreign("it cannot be read as a plan")
		case plan.Model.Name == "" || plan.EffectiveBatch == 0:
			return foreign("no model and no batch are in it")
		}
		return nil
	}
	var result estimator.Result
	switch err := json.Unmarshal(body, &result); {
	case err != nil:
		return foreign("it cannot be read as an estimate")
	case result.Versions.Estimator == "" || result.Peak.DeviceBytes <= 0 || result.Peak.LowBytes <= 0:
		return foreign("no version and no peak are in it")
	case len(result.GPUs) == 0 && gjson.GetBytes(doc.text, "gpus.#").Int() > 0:
		return foreign("it judges no card")
	}
	for _, fit := range result.GPUs {
		if !slices.Contains(verdicts, fit.Verdict) {
			return foreign(fmt.Sprintf("%.40q is no verdict", fit.Verdict))
		}
	}
	return nil
}

// decides says whether a problem is about the job. Anything else is about the service:
// too busy, broken, or not vramplan at all.
func (p *refusal) decides() bool {
	switch p.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return p.Code != ""
	}
	return false
}

// note says that the service did not answer; "" where it did or where there is none.
func (d *decider) note() string {
	if why := d.failed.Load(); why != nil {
		return fmt.Sprintf("the service did not answer, so this was worked out here (%s)", screen.Plain(*why))
	}
	return ""
}
