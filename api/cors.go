package api

import (
	"net/http"

	"github.com/go-chi/cors"
)

// crossOrigin lets pages of other origins call the API. Without origins it adds
// nothing, and browsers refuse them.
func crossOrigin(origins []string) func(http.Handler) http.Handler {
	if len(origins) == 0 {
		return func(next http.Handler) http.Handler { return next }
	}
	return cors.Handler(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete},
		AllowedHeaders: []string{"Accept", "Authorization", "Content-Type", "Idempotency-Key", "If-Match",
			"If-None-Match", "Traceparent", requestIDHeader},
		ExposedHeaders: []string{"Etag", "Location", "Retry-After", requestIDHeader},
		MaxAge:         600, // seconds; browsers cap it themselves
	})
}
