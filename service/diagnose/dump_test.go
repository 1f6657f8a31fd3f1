package diagnose_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/diagnose"
)

// pair is one of a dictionary, whose order is kept.
type pair struct {
	key   string
	value any
}

// pickled writes what a snapshot is made of as Python's pickler does.
func pickled(v any) []byte {
	switch v := v.(type) {
	case int64:
		return binary.LittleEndian.AppendUint64([]byte{0x8a, 8}, uint64(v))
	case string:
		return append(binary.LittleEndian.AppendUint32([]byte{'X'}, uint32(len(v))), v...)
	case []any:
		out := []byte("](")
		for _, item := range v {
			out = append(out, pickled(item)...)
		}
		return append(out, 'e')
	case []pair:
		out := []byte("}(")
		for _, p := range v {
			out = append(append(out, pickled(p.key)...), pickled(p.value)...)
		}
		return append(out, 'u')
	}
	panic(fmt.Sprintf("a %T", v))
}

// event is one of a history.
func event(action string, addr, size, line int64) any {
	frames := []any{[]pair{{"filename", "/opt/site-packages/torch/nn/modules/linear.py"}, {"line", int64(1)}, {"name", "forward"}},
		[]pair{{"filename", "/home/u/train.py"}, {"line", line}, {"name", "step"}}}
	return []pair{{"action", action}, {"addr", addr}, {"size", size}, {"device_free", int64(1 << 20)}, {"frames", frames}}
}

// dumped is a snapshot of device 0 with what is alive in the end, at 512 bytes of address for each byte of a size.
func dumped(alive map[int64]int64, history []any) []byte {
	var blocks []any
	for addr, size := range alive {
		blocks = append(blocks, []pair{{"address", addr}, {"size", size}, {"requested_size", size}, {"state", "active_allocated"}, {"frames", []any{}}})
	}
	segment := []pair{{"device", int64(0)}, {"address", int64(0)}, {"total_size", int64(1 << 40)}, {"allocated_size", int64(1 << 30)}, {"blocks", blocks}}
	return append(pickled([]pair{{"segments", []any{segment}}, {"device_traces", []any{history}}}), '.')
}

// TestHistories draws histories, of which the ring of the recorder may have lost the beginning, and holds what is read
// of them against a plain simulation.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type made struct{ size, line int64 }
		alive := map[int64]made{}
		var events []any
		lost := rapid.IntRange(0, 20).Draw(t, "lost")
		// what was held after each event, for the moments of which the history still tells
		type moment struct {
			bytes int64
			rows  map[string]int64
		}
		var moments []moment
		failed := -1
		note := func() {
			m := moment{rows: map[string]int64{}}
			for addr, a := range alive {
				m.bytes += a.size
				at := ""
				if a.line > 0 && addr >= int64(lost)<<30 {
					at = fmt.Sprintf("/home/u/train.py:%d step", a.line)
				}
				m.rows[fmt.Sprintf("%d at %s", a.size, at)]++
			}
			moments = append(moments, m)
		}
		for i := range rapid.IntRange(lost+1, 60).Draw(t, "events") {
			if i == lost {
				note()
			}
			addr := int64(i) << 30
			kind := rapid.SampledFrom([]string{"alloc", "alloc", "free_requested", "oom", "snapshot"}).Draw(t, "kind")
			var e any
			switch {
			case kind == "free_requested" && len(alive) > 0:
				var all []int64
				for a := range alive {
					all = append(all, a)
				}
				addr = rapid.SampledFrom(sorted(all)).Draw(t, "freed")
				e = event(kind, addr, alive[addr].size, 0)
				delete(alive, addr)
			case kind == "oom" && i >= lost:
				e = event(kind, 0, 1<<21, 0)
				failed = len(moments) - 1
			case kind == "snapshot":
				e = event(kind, 0, 0, 0)
			default:
				a := made{512 * rapid.Int64Range(1, 9).Draw(t, "size"), rapid.Int64Range(1, 3).Draw(t, "line")}
				alive[addr] = a
				e = event("alloc", addr, a.size, a.line)
			}
			if i >= lost {
				events = append(events, e)
				note()
			}
		}
		end := map[int64]int64{}
		for addr, a := range alive {
			end[addr] = a.size
		}
		dump, err := diagnose.ReadDump(bytes.NewReader(dumped(end, events)))
		if err != nil {
			t.Fatal(err)
		}
		held := dump.Held
		want := moments[len(moments)-1]
		for _, m := range moments {
			if m.bytes > want.bytes {
				want = m
			}
		}
		if failed >= 0 {
			want = moments[failed]
			if held.Moment != diagnose.AtFailure || held.RequestedBytes != 1<<21 {
				t.Fatalf("%s, %d asked for", held.Moment, held.RequestedBytes)
			}
		}
		if held.AllocatedBytes != want.bytes || !held.Whole() {
			t.Fatalf("%d bytes, want %d: %+v", held.AllocatedBytes, want.bytes, held.Blocks)
		}
		if failed < 0 {
			return // of several moments that are as large any may be told
		}
		for _, b := range held.Blocks {
			if key := fmt.Sprintf("%d at %s", b.Bytes, b.At); want.rows[key] != b.Count {
				t.Fatalf("%d of %s, want %v", b.Count, key, want.rows)
			}
		}
	})
}

func sorted(list []int64) []int64 {
	for i := range list {
		for j := i; j > 0 && list[j] < list[j-1]; j-- {
			list[j], list[j-1] = list[j-1], list[j]
		}
	}
	return list
}

// What is no snapshot is said to be none, and what is made to be too much ends.
func TestNoDumps(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	if _, err := w.Write([]byte(strings.Repeat("]", 1<<20))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// two thousand blocks that name one stack of twenty thousand frames
	stack := "](" + strings.Repeat("N", 20_000) + "e\x940"
	blocks := "]("
	for i := range 2000 {
		one := pickled([]pair{{"address", int64(i)}, {"size", int64(512)}, {"state", "active_allocated"}})
		blocks += string(one[:len(one)-1]) + "X\x06\x00\x00\x00framesh\x00u"
	}
	repeated := stack + "}\x8c\x08segments](}(\x8c\x0atotal_sizeJ\x00\x00\x10\x00\x8c\x06blocks" + blocks + "eues."
	for text, words := range map[string]string{
		"PK\x03\x04":                     "it is no memory snapshot",
		`{"segments": []}`:               "it is JSON and no pickle",
		"\x1f\x8bno gzip":                "it begins as gzip's files do",
		bomb.String():                    "larger than what is read",
		repeated:                         "more than 20000000 blocks, events and frames",
		"}.":                             "the list segments is missing",
		"N.":                             "the list segments is missing",
		"]\x94h\x00a.":                   "the list segments is missing",
		"}\x8c\x08segments]s.":           "nothing is allocated on any device",
		"}\x94\x8c\x08segmentsh\x00s.":   "the list segments is missing",
		"}\x8c\x08segments]\x94h\x01as.": "broken at byte",
		"cos\nsystem\n.":                 "nothing of it was run",
		"":                               "it ends at byte 0",
	} {
		if _, err := diagnose.ReadDump(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%.40q: %v, want %s", text, err, words)
		}
	}
}

// FuzzDump reads what is no snapshot, and what nearly is one. Its seeds are small: those that PyTorch wrote take Go's
// fuzzer a minute each to make smaller.
func FuzzDump(f *testing.F) {
	f.Add(dumped(map[int64]int64{1 << 30: 512, 2 << 30: 4096}, []any{event("alloc", 3<<30, 2048, 7), event("free_requested", 3<<30, 2048, 0),
		event("alloc", 2<<30, 4096, 9)}))
	f.Add(dumped(map[int64]int64{1 << 30: 512}, []any{event("alloc", 3<<30, 2048, 7), event("oom", 0, 1<<30, 7), event("free_requested", 3<<30, 2048, 0)}))
	f.Add(dumped(map[int64]int64{1 << 30: 512}, nil))
	f.Add([]byte("}\x8c\x08segments]s."))
	f.Fuzz(func(t *testing.T, text []byte) {
		dump, err := diagnose.ReadDump(bytes.NewReader(text))
		if err != nil {
			return
		}
		if !dump.Held.Whole() {
			t.Errorf("%d allocated in %+v", dump.Held.AllocatedBytes, dump.Held.Blocks)
		}
		for _, b := range dump.Held.Blocks {
			if b.Bytes <= 0 || b.Count <= 0 || len(b.At) > 300 {
				t.Errorf("%+v", b)
			}
		}
		diagnose.Read(dump.Text).Explain(diagnose.Job{}, nil)
		held := dump.Held.Explain(&diagnose.Job{Known: true}, &estimator.Result{})
		all := held.RestBytes
		for _, g := range held.Groups {
			all += g.Bytes * g.Count
		}
		if all != dump.Held.AllocatedBytes || held.RestBytes < 0 {
			t.Errorf("%d of %d bytes are told, %d as the rest", all, dump.Held.AllocatedBytes, held.RestBytes)
		}
	})
}
