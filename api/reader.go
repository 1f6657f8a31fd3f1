package api

import (
	"net/http"

	"github.com/vramplan/vramplan/service"
)

// reader is who reads what users reported.
type reader struct{ anonymous bool }

// reader asks for a key with a scope where the database has keys. Where it has none, or the operator says so, anybody
// may read.
func (a *API) reader(r *http.Request, scope service.Scope) (reader, error) {
	if r.Header.Get("Authorization") == "" && (a.options.AnonymousReads || !a.service.Keyring().InUse()) {
		return reader{anonymous: true}, nil
	}
	_, err := a.author(r, scope)
	return reader{}, err
}

// sees is an author as the reader may see them: the names of keys are for those who have one.
func (x reader) sees(by service.Author) service.Author {
	if x.anonymous {
		return service.Author{}
	}
	return by
}
