package readers_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/vramplan/vramplan/service/readers"
)

// BenchmarkRead reads every case of testdata; the time is that of all of them, and the metric that of one.
func BenchmarkRead(b *testing.B) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		b.Fatalf("no cases: %v", err)
	}
	var sources []readers.Source
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			b.Fatal(err)
		}
		s, _ := sourceOf(archive)
		sources = append(sources, s)
	}
	for b.Loop() {
		for _, s := range sources {
			if _, err := readers.Read(context.Background(), s); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(sources)), "µs/case")
}
