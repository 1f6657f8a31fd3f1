// Package fleet says what the jobs of a cluster asked for beside what they used: how much of the cards' memory was
// never held, which jobs would have run on a smaller card or on a MIG slice, and what was said of those that
// failed.
//
// It reads what a cluster keeps anyway, each in a stream: Slurm's accounting, series of dcgm-exporter, vramplan's
// own records of decisions and its observations. [Open] tells them apart, [Fleet.Read] goes through them,
// [Fleet.Report] has the figures, each with how many jobs it is about. Lines that cannot be read are counted and
// named. Figures are of groups and cards, never of a person: a row with few users is put together with others.
package fleet
