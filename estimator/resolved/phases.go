package resolved

import "github.com/vramplan/vramplan/estimator/model/arch"

// Alone says that the job runs on one GPU, which no other sends anything for a checkpoint or of one.
func (r *Job) Alone() bool { return r.Parallel == nil && r.Copies == 0 }

// Restores says that a run that starts from a checkpoint is played so. Where it is not, a first step makes the states
// as in a fresh run: those of optimizers that are like no other come as they were saved, but in which order the
// allocator is asked for them no trace has shown, and how several GPUs read a checkpoint none has either.
func (r *Job) Restores() bool {
	o := r.Optimizer
	return r.Resumes && r.Alone() && r.By.EvaluatesAsTrainer() && o.Own == nil && !o.ByTypes &&
		!r.Recipe.UpdatesInBackward && !r.Recipe.States.MasterWeights
}

// Rewrites says that a checkpoint has other tensors than the model: from transformers 5 on the experts of a mixture are
// one tensor for all, which is divided again for the file.
// Source: transformers/modeling_utils.py 5.23.0 (save_pretrained, revert_weight_conversion).
func (r *Job) Rewrites() bool {
	return r.Arch.LoRA == nil && arch.ExpertsOf(&r.Arch) != nil && r.Holds(arch.GroupsExperts)
}
