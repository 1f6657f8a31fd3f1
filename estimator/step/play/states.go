package play

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// updated are the parameters as the optimizer sees them: the masters where there are some.
func (s *Session) updated() []*step.Parameter {
	if !s.Recipe.States.MasterWeights {
		return s.trainable()
	}
	if s.masters == nil {
		s.masters = make([]*step.Parameter, 0, len(s.trainable()))
		copies := map[*step.Parameter]*step.Parameter{}
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
func (s *Session) loadStates(heap alloc.Heap) {
	s.eachStored(func(bytes int64, _ step.Component) { heap.Alloc(bytes) })
}

// eachState calls f for everything that stays besides the parameters.
func (s *Session) eachState(f func(bytes int64, c step.Component)) {
	s.strategy.Stays(s.asRank(), f)
	s.eachStored(f)
}

// eachStored calls f for everything that loadStates allocates.
func (s *Session) eachStored(f func(bytes int64, c step.Component)) {
	st := &s.Recipe.States
	if st.GradientBuffers {
		for _, p := range s.trainable() {
			f(p.Numel*st.Gradients.Size(), step.Gradients)
		}
	}
	if st.MasterWeights {
		for _, p := range s.trainable() {
			f(p.Numel*st.Master.Size(), step.OptimizerState)
		}
	}
}

// masterGradients are the copies of the gradients that the update of the masters takes.
func (s *Session) masterGradients(heap alloc.Heap) []int32 {
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
