package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/go-chi/chi/v5"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
)

// serveBare is what the service is measured against: a chi handler that decodes
// the same job and encodes an answer of the same size with encoding/json, and does
// nothing else.
func serveBare(ctx context.Context, _ io.Writer) error {
	var job estimator.Job
	if err := json.Unmarshal([]byte(repeatedJob), &job); err != nil {
		return err
	}
	answer, err := service.New(service.EmbeddedCatalog()).Estimate(ctx, job, service.EstimateOptions{})
	if err != nil {
		return err
	}
	r := chi.NewRouter()
	r.Post("/v1/estimate", func(w http.ResponseWriter, r *http.Request) {
		var job estimator.Job
		if err := json.NewDecoder(r.Body).Decode(&job); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, `{"url":"http://%s","message":"ready"}`+"\n", l.Addr())
	return http.Serve(l, r)
}
