package memory

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPoolEqualsSortedList compares a pool with one list that is searched from end to end, for few sizes of many blocks and for
// many sizes, with blocks that come in falling, in rising and in any order.
func TestPoolEqualsSortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pool
		p.reset()
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 1<<30), 1, rapid.SampledFrom([]int{1, 3, 40}).Draw(t, "most sizes")).Draw(t, "sizes")
		var plain []freeBlock
		find := func(n int64) int { // the first that is large enough, in the allocator's order
			return slices.IndexFunc(plain, func(f freeBlock) bool { return f.size >= n })
		}
		take := func(n int64) {
			want, ok := find(n), false
			var f freeBlock
			if f, ok = p.take(n); ok != (want >= 0) {
				t.Fatalf("for %d bytes found %v, in the list at %d", n, f, want)
			}
			if ok && f != plain[want] {
				t.Fatalf("for %d bytes found %v, in the list %v", n, f, plain[want])
			}
			if ok {
				plain = slices.Delete(plain, want, want+1)
			}
		}
		addr := int64(0)
		insert := func(size, at int64) {
			f := freeBlock{size: size, addr: at, index: int32(len(plain))}
			p.insert(f)
			i := slices.IndexFunc(plain, f.below)
			if i < 0 {
				i = len(plain)
			}
			plain = slices.Insert(plain, i, f)
		}
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			n := rapid.IntRange(1, 200).Draw(t, "blocks")
			size := func() int64 { return rapid.SampledFrom(sizes).Draw(t, "size") * minBlockBytes }
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				for s := size(); n > 0; n-- {
					addr++
					insert(s, addr)
				}
			case 1:
				for s := size(); n > 0; n-- {
					addr++
					insert(s, -addr)
				}
			case 2:
				for range n {
					addr++
					insert(size(), addr*0x9e3779b9%(1<<40))
				}
			case 3:
				for s := size(); n > 0; n-- {
					take(s)
				}
			case 4:
				for range min(n, len(plain)) {
					i := rapid.IntRange(0, len(plain)-1).Draw(t, "which")
					p.remove(plain[i])
					plain = slices.Delete(plain, i, i+1)
				}
			case 5:
				p.reset()
				plain = plain[:0]
			}
			var listed []freeBlock
			for f, ok := p.fit(0); ok; f, ok = p.after(f) {
				listed = append(listed, f)
			}
			if !slices.Equal(listed, plain) {
				t.Fatalf("the pool has %v, the list %v", listed, plain)
			}
		}
	})
}

// TestRunsStayFull gives back 8,192 blocks of one size in orders that steps have: the runs stay half full at least, so that there
// are few of them.
func TestRunsStayFull(t *testing.T) {
	const blocks = 8192
	for name, addr := range map[string]func(i int64) int64{
		"falling":                    func(i int64) int64 { return -i },
		"rising":                     func(i int64) int64 { return i },
		"rising in parts that fall":  func(i int64) int64 { return i%512 - i/512*512 },
		"falling in parts that rise": func(i int64) int64 { return i/512*512 - i%512 },
		"any":                        func(i int64) int64 { return i * 0x9e3779b1 % (1 << 32) },
	} {
		var p pool
		b := &p.buckets[class(1<<20)]
		for i := range int64(blocks) {
			p.insert(freeBlock{size: 1 << 20, addr: addr(i)})
		}
		if most := 2 * blocks / runLength; len(b.earlier) > most {
			t.Errorf("%s: %d runs, more than %d", name, len(b.earlier), most)
		}
	}
}
