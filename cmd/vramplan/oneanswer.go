package main

import (
	"context"
	"errors"
)

// showOne asks one question and shows what is answered: as JSON the line of the API, a problem's too, and else what
// show makes of it.
func showOne[T any](ctx context.Context, t *terminal, on *backend, path string, doc document, format string,
	show func(*T) error) error {
	body, err := on.post(ctx, path, doc)
	if refused, ok := asProblem(err); ok && format == "json" {
		return errors.Join(jsonLines{}.one(t.stdout, answer{doc: doc, err: refused}), exit(exitFailure))
	}
	a := answer{doc: doc, body: body, err: err}
	switch {
	case err != nil:
		return err
	case format == "json":
		return jsonLines{}.one(t.stdout, a)
	}
	v, err := parse[T](a)
	if err != nil {
		return err
	}
	return show(v)
}
