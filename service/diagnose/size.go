package diagnose

import (
	"math"
	"strconv"
	"strings"
)

// Sizes as c10::format_size prints them: bytes whole, the rest with two decimals.
const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40
)

// noLimitBytes is where a size stops being one. PyTorch prints 17179869184.00 GiB, which is -1 as an unsigned number,
// for a limit that nobody set and for what NVML does not know of a process (WSL, some containers).
const noLimitBytes = 1 << 54

// Window is the bytes that print as one size: from Low to High, both included.
type Window struct{ Low, High int64 }

// Contains says whether b lies in w.
func (w Window) Contains(b int64) bool { return w.Low <= b && b <= w.High }

// size is a printed size.
type size struct {
	text  string
	bytes int64
	unit  int64
	// decimals is how many digits behind the point were printed.
	decimals int
}

// parseSize reads "198.00 MiB", "8.38GiB", "0 bytes". MB and GB are taken for MiB and GiB: PyTorch's are multiples of
// 1024 in every release, memory_summary()'s and those of Apple's backend too. It says no where the text is not a size,
// or one that stands for none.
func parseSize(number, unit string) (size, bool) {
	number = strings.ReplaceAll(number, ",", "")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || v < 0 || math.IsInf(v, 0) {
		return size{}, false
	}
	s := size{text: number + " " + unit}
	switch strings.ToLower(unit) {
	case "b", "bytes", "byte":
		s.unit = 1
	case "kb", "kib":
		s.unit = kib
	case "mb", "mib":
		s.unit = mib
	case "gb", "gib":
		s.unit = gib
	case "tb", "tib":
		s.unit = tib
	default:
		return size{}, false
	}
	if v*float64(s.unit) >= noLimitBytes {
		return size{}, false
	}
	s.bytes = int64(math.Round(v * float64(s.unit)))
	if _, digits, ok := strings.Cut(number, "."); ok {
		s.decimals = len(digits)
	}
	return s, true
}

// half is half of the last printed digit, in bytes: how far the size may be from what is printed.
func (s size) half() int64 {
	return int64(math.Ceil(float64(s.unit) / math.Pow10(s.decimals) / 2))
}

// The allocator's segments.
// Source: c10/cuda/CUDACachingAllocator.cpp (get_allocation_size), torch 1.0 to 2.15.
const (
	smallestRequest    = 512
	smallRequestMost   = 1 * mib
	smallSegment       = 2 * mib
	largeRequestLeast  = 10 * mib
	largeSegment       = 20 * mib
	segmentGranularity = 2 * mib
)

// requests is the bytes of one tensor for which the allocator prints s as what it tried to allocate: it prints the
// segment that it wanted from the driver, which is larger than the tensor.
func (s size) requests() Window {
	low, high := s.bytes-s.half(), s.bytes+s.half()
	if s.unit == 1 {
		low, high = s.bytes, s.bytes
	}
	switch {
	case s.bytes == smallSegment:
		return Window{1, smallRequestMost}
	case s.bytes == largeSegment:
		return Window{smallRequestMost + 1, largeSegment}
	case s.decimals >= 2 && s.bytes%segmentGranularity == 0 && s.unit == mib:
		return Window{s.bytes - segmentGranularity + 1, s.bytes}
	}
	// Printed in GiB, or typed by hand: any multiple of 2 MiB that prints so, and any tensor that rounds up to it.
	// Before 1.3 large requests were rounded to 128 KiB, which this holds too.
	return Window{max(1, low-segmentGranularity+1), high}
}

// Text is the size as people write it.
func formatBytes(b int64) string {
	switch abs := max(b, -b); {
	case abs < kib:
		return strconv.FormatInt(b, 10) + " B"
	case abs < mib:
		return strconv.FormatFloat(float64(b)/kib, 'f', 2, 64) + " KiB"
	case abs < gib:
		return strconv.FormatFloat(float64(b)/mib, 'f', 2, 64) + " MiB"
	}
	return strconv.FormatFloat(float64(b)/gib, 'f', 2, 64) + " GiB"
}
