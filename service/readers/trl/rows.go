package trl

// FullRows says what is taken for rows without padding: a document of plain fine-tuning has no objective that could
// say them, so that rows are whole ones of the longest length. Source: trl 1.16.0
// trainer/sft_trainer.py (SFTTrainer.__init__, padding_free).
func (r *Job) FullRows() {
	for _, key := range []string{"packing", "padding_free"} {
		if v, ok := r.In.Get(key); ok && v.On() {
			r.Out.Assume("/training/sequence_length", "%s (%s) is taken as rows that are full, of the longest length: to have "+
				"them replayed as one row without padding, say --set objective.kind=sft --set objective.%s=true", key,
				v.Origin.At.Where(), key)
			return
		}
	}
}
