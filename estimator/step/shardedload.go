package step

// loadParts is fully_shard on a model in the CPU's memory, layer by layer and then the rest: the parameters come to the GPU whole,
// the buffers beside them, every part is copied out of its parameter, and the whole ones go.
// Source: _fully_shard.py (fully_shard), _fsdp_param.py (FSDPParam._init_sharded_param), torch 2.9.
func (s *Session) loadParts(heap Heap) {
	s.eachGroup(func(group []int) { s.loadGroup(heap, group) })
}

// eachGroup calls f with the places of the parameters and buffers of every layer, and then of the rest.
func (s *Session) eachGroup(f func(group []int)) {
	list := s.Whole.List
	var root []int
	layer := func(from, to int) {
		group := root[len(root):]
		for i := from; i < to; i++ {
			group = append(group, i)
		}
		f(group)
	}
	end := s.Whole.LayerStart + s.Whole.PerLayer*int(s.Whole.Recorded)
	for i := 0; i < len(list); {
		switch {
		case i == s.Whole.LayerStart && i < end:
			for range s.Whole.Layers {
				layer(i, i+s.Whole.PerLayer)
			}
			i = end
		case list[i].InLayer: // unlike the others
			to := i + 1
			for to < s.Whole.LayerStart && list[to].InLayer && !list[to].First {
				to++
			}
			layer(i, to)
			i = to
		default:
			root = append(root, i)
			i++
		}
	}
	f(root)
}

// loadGroup brings the parameters of the given places to heap and leaves a part of each there.
func (s *Session) loadGroup(heap Heap, group []int) {
	if s.Recipe.Sharding.Flat {
		s.loadFlat(heap, group)
		return
	}
	list, sh := s.Whole.List, s.Recipe.Sharding
	var whole []int32
	for _, i := range group {
		if !list[i].Buffer {
			whole = append(whole, heap.Alloc(list[i].Numel*sh.stored(&list[i]).Size()))
		}
	}
	for _, i := range group {
		if list[i].Buffer {
			heap.Alloc(list[i].bytes())
		}
	}
	for _, i := range group {
		if !list[i].Buffer {
			heap.Alloc(s.Parameters.List[i].bytes())
		}
	}
	for _, h := range whole {
		heap.Free(h)
	}
}

// loadPeak is the most that loading the model holds.
func (s *Session) loadPeak() int64 {
	if !s.Recipe.Sharding.on() {
		return s.Parameters.loadPeak()
	}
	var c counting
	s.loadParts(&c)
	return c.most
}
