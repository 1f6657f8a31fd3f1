// Package lengths says how long the samples of a data set are and which batch of them is the longest. [Read] goes
// through a file once, in a stream, and keeps a [Histogram]; [Histogram.Longest] forms batches of it as trainers do
// that pad each to its longest sample.
package lengths
