package estimator

import (
	"context"
	"errors"
)

// Until is an estimate, such as [Estimate], that ends with ctx: within milliseconds, and with the context's error.
func Until(ctx context.Context, estimate func(Input) (*Result, error)) func(Input) (*Result, error) {
	return func(in Input) (*Result, error) {
		in.Done = ctx.Done()
		r, err := estimate(in)
		if errors.Is(err, ErrStopped) {
			return nil, ctx.Err()
		}
		return r, err
	}
}
