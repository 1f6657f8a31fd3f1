package api_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/vramplan/vramplan/api"
)

// TestPagesAreCompressed: who takes gzip gets the same page in fewer bytes, and who does not gets it as it is.
func TestPagesAreCompressed(t *testing.T) {
	h := newAPI(api.Options{})
	get := func(path, accepted string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		if accepted != "" {
			r.Header.Set("Accept-Encoding", accepted)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, path := range []string{"/", "/docs", "/docs/calculator.js", "/docs/style.css"} {
		plain, small := get(path, ""), get(path, "gzip")
		if plain.Header().Get("Content-Encoding") != "" || small.Header().Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %q and %q", path, plain.Header(), small.Header())
			continue
		}
		if small.Body.Len() >= plain.Body.Len() {
			t.Errorf("%s: %d bytes compressed, %d as it is", path, small.Body.Len(), plain.Body.Len())
		}
		z, err := gzip.NewReader(small.Body)
		if err != nil {
			t.Fatal(path, err)
		}
		if whole, err := io.ReadAll(z); err != nil || !bytes.Equal(whole, plain.Body.Bytes()) {
			t.Errorf("%s: what comes out is not the page: %v", path, err)
		}
	}
}
