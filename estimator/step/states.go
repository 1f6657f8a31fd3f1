package step

// updated are the parameters as the optimizer sees them: the masters where there are some.
func (s *Session) updated() []*Parameter {
	if !s.Recipe.States.MasterWeights {
		return s.trainable()
	}
	if s.masters == nil {
		s.masters = make([]*Parameter, 0, len(s.trainable()))
		copies := map[*Parameter]*Parameter{}
		for _, p := range s.trainable() {
			if copies[p] == nil {
				q := *p
				q.Dtype = s.Recipe.States.Master
				copies[p] = &q
			}
			s.masters = append(s.masters, copies[p])
		}
	}
	return s.masters
}

// loadStates allocates what stays besides the parameters: the buffers of the gradients, and the masters.
func (s *Session) loadStates(heap Heap) {
	s.eachStored(func(bytes int64, _ Component) { heap.Alloc(bytes) })
}

// eachState calls f for everything that stays besides the parameters.
func (s *Session) eachState(f func(bytes int64, c Component)) {
	s.strategy.Stays(s.asRank(), f)
	s.eachStored(f)
}

// eachStored calls f for everything that loadStates allocates.
func (s *Session) eachStored(f func(bytes int64, c Component)) {
	st := &s.Recipe.States
	if st.GradientBuffers {
		for _, p := range s.trainable() {
			f(p.Numel*st.Gradients.Size(), Gradients)
		}
	}
	if st.MasterWeights {
		for _, p := range s.trainable() {
			f(p.Numel*st.Master.Size(), OptimizerState)
		}
	}
}

// masterGradients are the copies of the gradients that the update of the masters takes.
func (s *Session) masterGradients(heap Heap) []int32 {
	st := &s.Recipe.States
	if !st.MasterGradients {
		return nil
	}
	handles := make([]int32, 0, len(s.trainable()))
	for _, p := range s.trainable() {
		handles = append(handles, heap.Alloc(p.Numel*st.Master.Size()))
	}
	return handles
}
