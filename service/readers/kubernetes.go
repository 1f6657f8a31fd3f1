package readers

import "context"

func (in *inbox) kubernetes(ctx context.Context, file string, text []byte) (bool, error) {
	return false, nil
}
