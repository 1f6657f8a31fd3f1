package memory

// Request is one line of a script that is played again and again.
type Request struct {
	Bytes  int64
	Handle int32 // where the handle of the block is kept
	class  uint16
	pool   uint8
	Op     Op
}

// Op is what a request does.
type Op uint8

// What Serve does by itself.
const (
	Take  Op = iota // allocate
	Give            // free
	Yield           // free, unless what a script yields is kept
	Other           // and above: for whoever plays the script
)

// NewRequest is a request on a stream, 0 for the one that computes, whose size has been looked at.
func NewRequest(op Op, stream uint8, bytes int64, handle int32) Request {
	n := rounded(bytes)
	r := Request{Bytes: bytes, Handle: handle, Op: op, class: class(n), pool: streamPools*stream + largePool}
	if n <= smallRequestBytes {
		r.pool -= largePool - smallPool
	}
	return r
}

// Part is that of the allocator's parts which the request concerns.
func (r *Request) Part() int { return int(r.pool) }

// Stream is where the request is to be served.
func (r *Request) Stream() uint8 { return r.pool / streamPools }

func rounded(bytes int64) int64 { return (max(bytes, 1) + minBlockBytes - 1) &^ (minBlockBytes - 1) }

// Serve plays a script up to the first request that is for others, or before which it is to pause, and says how many it
// has played. handles keeps the handles of what is allocated. With keep, what the script yields stays. Where a request
// fails, the others are left out.
func (a *Allocator) Serve(script []Request, handles []int32, keep bool) int {
	if a.failed {
		return len(script)
	}
	a.pauses.serving, a.pauses.at = true, 0
	played := a.play(script, handles, keep)
	a.pauses.serving = false
	return played
}

// play is Alloc and Free, with what most requests need in the loop itself: a block of the very size, or a block without
// free neighbours that goes in front of the others of its class.
func (a *Allocator) play(script []Request, handles []int32, keep bool) int {
	fast := !a.Expandable && a.Divisions < 2
	for at := range script {
		r := &script[at]
		h := &handles[r.Handle]
		if r.Op == Take {
			p := a.pools[r.pool&(poolCount-1)]
			n := (r.Bytes + minBlockBytes - 1) &^ (minBlockBytes - 1)
			b := &p.buckets[r.class]
			if k := b.count - 1; k >= 0 && fast {
				i := b.last[k]
				if x := &p.blocks[i]; x.size == n {
					if b.count = k; k == 0 {
						p.emptied(r.class)
					}
					x.free = false
					if a.allocated += n; a.allocated > a.peakAllocated {
						a.peakAllocated = a.allocated
					}
					*h = i<<poolBits | int32(r.pool)
					continue
				}
			}
			n, c := n, r.class
			if a.Divisions > 1 {
				n = a.rounded(r.Bytes)
				c = class(n)
			}
			if *h = a.serve(int32(r.pool), r.Bytes, max(n, minBlockBytes), c); *h != none {
				continue
			}
			if a.failed {
				break
			}
			return at
		}
		if r.Op >= Other {
			return at
		}
		if keep && r.Op == Yield || *h == none {
			continue
		}
		p, i := a.pools[*h&(poolCount-1)], *h>>poolBits
		*h = none
		x := &p.blocks[i]
		a.allocated -= x.size
		if !p.blocks[x.prev].free && !p.blocks[x.next].free {
			b := &p.buckets[x.class]
			if k := b.count; k > 0 && k < runLength && x.below(&p.blocks[b.last[k-1]]) {
				x.free = true
				b.last[k] = i
				b.count = k + 1
				continue
			}
		}
		p.free(i)
	}
	return len(script)
}
