package catalog_test

import (
	"testing"

	"github.com/vramplan/vramplan/service"
)

func BenchmarkLookupGPU(b *testing.B) {
	for b.Loop() {
		if _, err := builtin.GPU("NVIDIA GeForce RTX 4070"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLookupModel(b *testing.B) {
	for b.Loop() {
		if _, err := builtin.Model("Llama-3.1-8B"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnknownGPU(b *testing.B) {
	for b.Loop() {
		if _, err := builtin.GPU("NVIDIA GeForce RTX 4O70"); err == nil {
			b.Fatal("found")
		}
	}
}

// BenchmarkFirstGPU is what a command that names a card pays for the catalog.
func BenchmarkFirstGPU(b *testing.B) {
	for b.Loop() {
		if _, err := service.EmbeddedCatalog().GPU("rtx-4070"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirstModel is what a command that names a preset pays for the catalog.
func BenchmarkFirstModel(b *testing.B) {
	for b.Loop() {
		if _, err := service.EmbeddedCatalog().Model("gpt2"); err != nil {
			b.Fatal(err)
		}
	}
}
