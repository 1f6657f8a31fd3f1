package readers

// Components are the components of a heterogeneous job of Slurm's on which the job runs, which is the first one for all
// other jobs; none where nobody knows.
func (j Job) Components() []int {
	if j.draft == nil {
		return nil
	}
	return j.draft.Components
}
