package diagnose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// torch.cuda.memory_snapshot() and torch.cuda.memory._snapshot() written as JSON: a list of segments, or an object with
// them and a history (torch 2.15 torch/cuda/_memory_viz.py reads the same). It is read as a stream, and nothing of it
// is kept but sums.
type snapshotSegment struct {
	Device    int   `json:"device"`
	Total     int64 `json:"total_size"`
	Allocated int64 `json:"allocated_size"`
	Active    int64 `json:"active_size"`
	Blocks    []struct {
		Size  int64  `json:"size"`
		State string `json:"state"`
	} `json:"blocks"`
}

// snapshotEvent is an event of the history; those named oom are requests that failed.
type snapshotEvent struct {
	Action     string `json:"action"`
	Size       int64  `json:"size"`
	DeviceFree int64  `json:"device_free"`
}

// snapshotSums are what is kept of a device.
type snapshotSums struct {
	segments                           int
	reserved, allocated, free, largest int64
	requested, deviceFree              int64
}

// maxSnapshotDevices is how many devices of a snapshot are told.
const maxSnapshotDevices = 16

// snapshotText turns a snapshot into lines of the form that the rest reads, "" where the text is none. Broken JSON is
// none.
func snapshotText(r io.Reader) string {
	d := json.NewDecoder(io.LimitReader(r, longestLog))
	first, err := d.Token()
	if err != nil {
		return ""
	}
	sums := map[int]*snapshotSums{}
	found := false
	switch first {
	case json.Delim('['):
		found = segments(d, sums)
	case json.Delim('{'):
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return ""
			}
			open := func() bool { t, err := d.Token(); return err == nil && t == json.Delim('[') }
			switch key {
			case "segments":
				if !open() || !segments(d, sums) {
					return ""
				}
				found = true
			case "device_traces":
				if !open() || !traces(d, sums) {
					return ""
				}
			default:
				var skipped json.RawMessage
				if d.Decode(&skipped) != nil {
					return ""
				}
			}
		}
	}
	if !found {
		return ""
	}
	return snapshotLines(sums)
}

// segments adds up a list of segments, up to its end.
func segments(d *json.Decoder, sums map[int]*snapshotSums) bool {
	any, reserved := false, int64(0)
	for d.More() {
		var s snapshotSegment
		if d.Decode(&s) != nil || s.Total <= 0 || s.Allocated < 0 || s.Allocated > s.Total ||
			s.Total > noLimitBytes-reserved {
			return false
		}
		any = true
		reserved += s.Total
		on := sums[s.Device]
		if on == nil {
			if len(sums) == maxSnapshotDevices {
				continue
			}
			on = &snapshotSums{}
			sums[s.Device] = on
		}
		on.segments++
		on.reserved += s.Total
		on.allocated += s.Allocated
		for _, b := range s.Blocks {
			if b.State == "inactive" && b.Size > 0 && b.Size <= s.Total {
				on.free += b.Size
				on.largest = max(on.largest, b.Size)
			}
		}
	}
	_, err := d.Token()
	return any && err == nil
}

// traces looks for the last request that failed in the history of each device, and reckons what was allocated then:
// the segments are those of the snapshot, when what the failed step held was long given back.
func traces(d *json.Decoder, sums map[int]*snapshotSums) bool {
	for device := 0; d.More(); device++ {
		if t, err := d.Token(); err != nil || t != json.Delim('[') {
			return false
		}
		failed, since := false, int64(0)
		for d.More() {
			var e snapshotEvent
			if d.Decode(&e) != nil {
				return false
			}
			if bytes := rounded(min(max(e.Size, 0), noLimitBytes)); e.Action == "alloc" {
				since -= bytes
			} else if e.Action == "free_requested" {
				since += bytes
			}
			since = min(max(since, -noLimitBytes), noLimitBytes)
			if on := sums[device]; e.Action == "oom" && on != nil && e.Size <= noLimitBytes && e.DeviceFree >= 0 &&
				e.DeviceFree <= noLimitBytes {
				on.requested, on.deviceFree = e.Size, e.DeviceFree
				failed, since = true, 0
			}
		}
		if on := sums[device]; failed {
			on.allocated = min(max(on.allocated+since, 0), on.reserved)
		}
		if _, err := d.Token(); err != nil {
			return false
		}
	}
	_, err := d.Token()
	return err == nil
}

// snapshotLines writes sums as a snapshot's summary, and a request that failed as PyTorch's message of it.
func snapshotLines(sums map[int]*snapshotSums) string {
	var b strings.Builder
	for device := range 1 << 8 {
		s, ok := sums[device]
		if !ok {
			continue
		}
		fmt.Fprintf(&b, "memory snapshot, device %d: %d segments, allocated_bytes.all.current: %d, "+
			"reserved_bytes.all.current: %d, free in pieces: %d, largest piece: %d\n",
			device, s.segments, s.allocated, s.reserved, s.free, s.largest)
		if s.requested > 0 {
			fmt.Fprintf(&b, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate %d bytes. GPU %d has a "+
				"total capacity of %d bytes of which %d bytes is free. "+
				"Of the allocated memory %d bytes is allocated by PyTorch, and %d bytes is reserved by PyTorch "+
				"but unallocated.\n",
				s.requested, device, s.reserved+s.deviceFree, s.deviceFree, s.allocated, s.reserved-s.allocated)
		}
	}
	return b.String()
}

// looksLikeSnapshot says whether the beginning of a text may be that of a snapshot.
func looksLikeSnapshot(head []byte) bool {
	head = bytes.TrimLeft(head, " \t\r\n\uFEFF")
	return len(head) > 0 && (head[0] == '[' || head[0] == '{') && (bytes.Contains(head, []byte(`"segments"`)) ||
		bytes.Contains(head, []byte(`"total_size"`)) ||
		bytes.Contains(head, []byte(`"device_traces"`)) || bytes.Contains(head, []byte(`"address"`)))
}
