package api

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"
)

// TestSegments: what arrived is what was sent, whatever it was cut into.
func TestSegments(t *testing.T) {
	for _, size := range []int{0, 1, segmentBytes - 1, segmentBytes, segmentBytes + 1, 3 * segmentBytes, 1 << 20} {
		sent := make([]byte, size)
		for i := range sent {
			sent[i] = byte(i * 31 >> 3)
		}
		for name, r := range map[string]io.Reader{
			"whole":           bytes.NewReader(sent),
			"halves":          iotest.HalfReader(bytes.NewReader(sent)),
			"end with a part": iotest.DataErrReader(bytes.NewReader(sent)),
		} {
			var s segments
			if err := s.from(r); err != nil {
				t.Fatal(err)
			}
			if got := s.joined(); !bytes.Equal(got, sent) {
				t.Errorf("%d bytes, %s: %d came", size, name, len(got))
			}
			s.release()
		}
	}
	var s segments
	if err := s.from(iotest.TimeoutReader(bytes.NewReader(make([]byte, 2*segmentBytes)))); err != iotest.ErrTimeout {
		t.Errorf("%v", err)
	}
	s.release()
}
