package catalog

import "testing"

func TestLinks(t *testing.T) {
	for _, tt := range []struct {
		name   string
		card   GPU
		link   float64
		single bool
	}{
		{"NVLink on a board for eight", GPU{ID: "h100-sxm5", Form: "SXM", ComputeCapability: "9.0"}, 450e9, false},
		{"NVLink cut down", GPU{ID: "h800-sxm5", Form: "SXM", ComputeCapability: "9.0"}, 200e9, false},
		{"PCI Express 3", GPU{ID: "rtx-2080-ti", Form: "PCIe", ComputeCapability: "7.5"}, 15.75e9, false},
		{"PCI Express 4", GPU{ID: "rtx-4070", Form: "PCIe", ComputeCapability: "8.9"}, 31.5e9, false},
		{"PCI Express 5", GPU{ID: "rtx-5090", Form: "PCIe", ComputeCapability: "12.0"}, 63e9, false},
		{"another vendor's", GPU{ID: "mi300x", Form: "PCIe"}, 0, false},
		{"nobody knows", GPU{ID: "card"}, 0, false},
		{"a laptop", GPU{ID: "rtx-4090-laptop", Form: "laptop", ComputeCapability: "8.9"}, 0, true},
		{"a slice", GPU{ID: "a100-sxm4-80gb-mig-1g.10gb", Form: "SXM", ComputeCapability: "8.0"}, 300e9, true},
	} {
		got := tt.card.ForEstimator()
		if got.LinkBytesPerSecond != tt.link || got.Single != tt.single {
			t.Errorf("%s: %g bytes a second, single %v; want %g, %v", tt.name, got.LinkBytesPerSecond, got.Single,
				tt.link, tt.single)
		}
	}
}
