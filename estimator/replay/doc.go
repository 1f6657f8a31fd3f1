// Package replay plays a recorded job on the model of PyTorch's caching allocator: its optimizer steps without a limit
// and under limits until the smallest is found ([Workspace]), all layers or some of them and the rest continued, and
// what came of it remembered for those who ask the same ([Memory]). It knows sessions, not what they are of.
package replay
