package memory

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// listed is a free block as the plain list of the test below has it.
type listed struct {
	block
	index int32
}

// add puts a free block into p.
func (p *pool) add(size, addr int64) listed {
	i := p.newBlock()
	p.blocks[i] = block{size: size, addr: addr, class: class(size)}
	p.insert(i)
	return listed{p.blocks[i], i}
}

// TestPoolEqualsSortedList compares a pool with one list that is searched from end to end, for few sizes of many blocks
// and for many sizes, with blocks that come in falling, in rising and in any order.
func TestPoolEqualsSortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pool
		p.reset()
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 1<<30), 1,
			rapid.SampledFrom([]int{1, 3, 40}).Draw(t, "most sizes")).Draw(t, "sizes")
		var plain []listed
		take := func(n int64) {
			// the first that is large enough, in the allocator's order
			want := slices.IndexFunc(plain, func(f listed) bool { return f.size >= n })
			i := p.fit(n, class(n))
			if (i != noBlock) != (want >= 0) {
				t.Fatalf("for %d bytes found block %d, in the list at %d", n, i, want)
			}
			if i == noBlock {
				return
			}
			if i != plain[want].index {
				t.Fatalf("for %d bytes found %v, in the list %v", n, p.blocks[i], plain[want])
			}
			p.remove(i)
			plain = slices.Delete(plain, want, want+1)
		}
		addr := int64(0)
		insert := func(size, at int64) {
			f := p.add(size, at)
			i := slices.IndexFunc(plain, func(g listed) bool { return f.below(&g.block) })
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
					p.remove(plain[i].index)
					plain = slices.Delete(plain, i, i+1)
				}
			case 5:
				p.reset()
				plain = plain[:0]
			}
			at := 0
			for i := p.fit(minBlockBytes, class(minBlockBytes)); i != noBlock; i = p.after(i) {
				if at == len(plain) || i != plain[at].index {
					t.Fatalf("the pool has %v as the %d-th of %d, the list %v", p.blocks[i], at, len(plain), plain)
				}
				at++
			}
			if at < len(plain) {
				t.Fatalf("the pool has %d blocks, the list %d", at, len(plain))
			}
		}
	})
}

// TestRunsStayFull gives back 8,192 blocks of one size in orders that steps have: the runs stay half full at least, so
// that there are few of them.
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
		p.reset()
		b := &p.buckets[class(1<<20)]
		for i := range int64(blocks) {
			p.add(1<<20, addr(i))
		}
		if most := 2 * blocks / runLength; len(b.earlier) > most {
			t.Errorf("%s: %d runs, more than %d", name, len(b.earlier), most)
		}
	}
}

// TestClassesRise with the sizes, and none is beyond the last.
func TestClassesRise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.Int64Range(1, (1<<63-1)/minBlockBytes)
		a, b := sizes.Draw(t, "a")*minBlockBytes, sizes.Draw(t, "b")*minBlockBytes
		if a > b {
			a, b = b, a
		}
		if class(a) > class(b) || class(b) >= classes {
			t.Fatalf("%d is of class %d, %d of class %d of %d", a, class(a), b, class(b), classes)
		}
	})
}
