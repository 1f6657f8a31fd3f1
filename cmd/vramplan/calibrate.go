package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/service"
)

type calibrateCommand struct {
	Fit      calibrateFitCommand      `cmd:"" help:"Fit a calibration to the observations of a service. Answers do not change until it is activated."`
	List     calibrateListCommand     `cmd:"" help:"List the calibrations of a service."`
	Show     calibrateShowCommand     `cmd:"" help:"Show a calibration: its figures by group, and what it is worth on runs that it did not see."`
	Activate calibrateActivateCommand `cmd:"" help:"Make a calibration, or the built-in constants, what a service answers with."`
	History  calibrateHistoryCommand  `cmd:"" help:"Show what a service answered with, since when, and who wanted it."`
}

// calibrateFlags are those of a command about a service's calibrations.
type calibrateFlags struct {
	serverFlags `embed:"" group:"Answers:"`
	outputFlags `embed:""`
	Key         string `setting:"VRAMPLAN_API_KEY" placeholder:"KEY" help:"API key: with the scope calibrations:read to list and show, calibrations:write to fit and activate."`
}

// answered sends a request and prints the answer, in JSON or as show says.
func answered[T any](ctx context.Context, t *terminal, f *calibrateFlags, r apiRequest,
	show func(io.Writer, *T, grids) error) error {
	if err := f.required(); err != nil {
		return err
	}
	b, err := f.backend(t)
	if err != nil {
		return err
	}
	body, err := b.send(ctx, r)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(t.stdout)
	if f.format() == "json" {
		return errors.Join(jsonLines{}.one(out, answer{body: body}), out.Flush())
	}
	v := new(T)
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	return errors.Join(show(out, v, grids{f.format() == "markdown"}), out.Flush())
}

// grids prints tables in one of two forms.
type grids struct{ markdown bool }

func (f grids) write(w io.Writer, g *screen.Grid) {
	if f.markdown {
		g.WriteMarkdown(w)
	} else {
		g.Write(w)
	}
}

func bodyOf(v any) (io.Reader, error) {
	text, err := json.Marshal(v)
	return bytes.NewReader(text), err
}

type calibrateFitCommand struct {
	calibrateFlags `embed:""`
	Since          string `placeholder:"TIME" help:"Leave out older observations, such as 2026-06-01T00:00:00Z."`
	Until          string `placeholder:"TIME" help:"Leave out newer observations."`
	Note           string `placeholder:"TEXT" help:"What the calibration is for."`
	DryRun         bool   `help:"Show what would be fitted, and store nothing."`
	Activate       bool   `help:"Answer with it from now on."`
}

// Run fits a calibration.
func (c *calibrateFitCommand) Run(ctx context.Context, t *terminal) error {
	body, err := bodyOf(service.CalibrationFit{Since: c.Since, Until: c.Until, Note: c.Note, DryRun: c.DryRun,
		Activate: c.Activate})
	if err != nil {
		return err
	}
	r := apiRequest{method: http.MethodPost, path: "/v1/calibrations", key: c.Key, body: body}
	return answered(ctx, t, &c.calibrateFlags, r, func(w io.Writer, f *service.FittedCalibration, form grids) error {
		switch {
		case f.Pending:
			_, err := fmt.Fprintln(w, "The fit takes a while and goes on in the service: the same command again shows "+
				"what became of it.")
			return err
		case !f.Stored:
			fmt.Fprintln(w, "A dry run: nothing was stored.")
		case f.Known:
			fmt.Fprintf(w, "%s has the same figures and was there already.\n", f.ID)
		default:
			fmt.Fprintf(w, "%s is stored.\n", f.ID)
		}
		switch a := f.Activation; {
		case a == nil:
		case a.Refused != "":
			fmt.Fprintf(w, "The service's policy did not activate it, and answers with %s as before: %s.\n",
				screen.Plain(a.Calibration), screen.Plain(a.Reason))
		case a.Reason != "":
			fmt.Fprintf(w, "The service's policy activated it: %s.\n", screen.Plain(a.Reason))
		default:
			fmt.Fprintln(w, "The service answers with it from now on.")
		}
		fmt.Fprintln(w)
		return showCalibration(w, f.Calibration, form)
	})
}

type calibrateListCommand struct {
	calibrateFlags `embed:""`
}

// Run lists calibrations.
func (c *calibrateListCommand) Run(ctx context.Context, t *terminal) error {
	return answered(ctx, t, &c.calibrateFlags, apiRequest{method: http.MethodGet, path: "/v1/calibrations", key: c.Key},
		func(w io.Writer, l *api.CalibrationList, form grids) error {
			g := screen.NewGrid("left", "left", "left", "right", "right", "right", "left")
			g.Add("id", "created", "by", "runs", "within bounds, built in", "fitted", "note")
			for _, k := range l.Calibrations {
				g.Add(mark(k.ID, l.CalibrationStatus), k.CreatedAt.Format(time.RFC3339), screen.Plain(k.By.Name),
					strconv.Itoa(k.Observations.Used),
					share(k.HeldOut.All.Builtin.Within, k.HeldOut.All.Jobs),
					share(k.HeldOut.All.Fitted.Within, k.HeldOut.All.Jobs), screen.Plain(k.Note))
			}
			form.write(w, g)
			fmt.Fprintf(w, "\nThe service answers with %s.%s\n", screen.Plain(l.Calibration),
				mismatch(l.CalibrationStatus))
			return nil
		})
}

func mark(id string, s service.CalibrationStatus) string {
	if id == s.Calibration {
		return screen.Plain(id) + " *"
	}
	return screen.Plain(id)
}

func mismatch(s service.CalibrationStatus) string {
	if s.Activated == s.Calibration {
		return ""
	}
	return fmt.Sprintf(" %s was activated, but fitted to another version of the estimator: fit a new one.",
		screen.Plain(s.Activated))
}

type calibrateShowCommand struct {
	calibrateFlags `embed:""`
	ID             string `arg:"" help:"The calibration's id, as calibrate list shows it."`
}

// Run shows a calibration.
func (c *calibrateShowCommand) Run(ctx context.Context, t *terminal) error {
	return answered(ctx, t, &c.calibrateFlags, apiRequest{method: http.MethodGet, path: "/v1/calibrations/" +
		url.PathEscape(c.ID), key: c.Key}, showCalibration)
}

type calibrateActivateCommand struct {
	calibrateFlags `embed:""`
	ID             string `arg:"" help:"The calibration's id, or that of the built-in constants, as calibrate list shows them."`
}

// Run activates a calibration.
func (c *calibrateActivateCommand) Run(ctx context.Context, t *terminal) error {
	body, err := bodyOf(api.ActiveCalibration{Calibration: c.ID})
	if err != nil {
		return err
	}
	before, known, err := c.active(ctx, t)
	if err != nil {
		return err
	}
	r := apiRequest{method: http.MethodPut, path: "/v1/calibrations/active", key: c.Key, known: known, body: body}
	return answered(ctx, t, &c.calibrateFlags, r, func(w io.Writer, a *service.Activation, _ grids) error {
		_, err := fmt.Fprintf(w, "The service answers with %s from now on, and with %s until now; other replicas "+
			"follow within seconds.\n", screen.Plain(a.Calibration), screen.Plain(before))
		return err
	})
}

// active is what the service answers with, and the ETag of what was activated: whoever activates another one meanwhile
// is not overwritten.
func (f *calibrateFlags) active(ctx context.Context, t *terminal) (id, etag string, err error) {
	if err := f.required(); err != nil {
		return "", "", err
	}
	b, err := f.backend(t)
	if err != nil {
		return "", "", err
	}
	body, header, err := b.exchange(ctx, apiRequest{method: http.MethodGet, path: "/v1/calibrations/active?page_size=1",
		key: f.Key})
	if err != nil {
		return "", "", err
	}
	var l api.ActivationList
	if err := json.Unmarshal(body, &l); err != nil {
		return "", "", fmt.Errorf("the answer cannot be read: %w", err)
	}
	return l.Calibration, header.Get("Etag"), nil
}

// required says what is missing where no service is named.
func (f *calibrateFlags) required() error {
	if f.Server == "" {
		return usage("--server (VRAMPLAN_SERVER) is needed: calibrations are kept by a service")
	}
	return nil
}

type calibrateHistoryCommand struct {
	calibrateFlags `embed:""`
}

// Run lists what was activated.
func (c *calibrateHistoryCommand) Run(ctx context.Context, t *terminal) error {
	return answered(ctx, t, &c.calibrateFlags, apiRequest{method: http.MethodGet, path: "/v1/calibrations/active",
		key: c.Key}, func(w io.Writer, l *api.ActivationList, form grids) error {
		g := screen.NewGrid("right", "left", "left", "left", "left")
		g.Add("number", "calibration", "since", "by", "why")
		for _, a := range l.Activations {
			why := screen.Plain(a.Reason)
			if a.Refused != "" {
				why = "not " + screen.Plain(a.Refused) + ": " + why
			}
			g.Add(strconv.FormatInt(a.Number, 10), screen.Plain(a.Calibration), a.At.Format(time.RFC3339), who(a.By),
				why)
		}
		form.write(w, g)
		fmt.Fprintf(w, "\nThe service answers with %s.%s\n", screen.Plain(l.Calibration), mismatch(l.CalibrationStatus))
		return nil
	})
}

// who is the name of the key that somebody chose with, or the policy's.
func who(by service.Author) string {
	if a := (service.Activation{By: by}); a.ByPolicy() {
		return "policy " + screen.Plain(by.Name)
	}
	return screen.Plain(by.Name)
}
