package loops

// DeviceBatch derives the accumulation as LLM Foundry (utils/config_utils.py, update_batch_size_info) and OLMo
// (scripts/train.py) do: the batch of one GPU is the global one divided by the GPUs, a larger micro-batch is cut down
// to it, and the last one may be smaller.
func (r *Job) DeviceBatch() {
	const pointer = "/training/micro_batch"
	global, ok := r.In.Get("global_train_batch_size")
	g, isInt := global.Int()
	micro, hasMicro := r.Out.Int(pointer)
	w := r.GPUs()
	if !ok || !isInt || g < 1 || !hasMicro || !w.Known {
		return
	}
	if g%w.N != 0 {
		r.NotDivisible(global, g, w.N)
		return
	}
	device := g / w.N
	if micro > device {
		r.Out.Assume(pointer, "the micro-batch of %d is cut down to the %d sequences that one GPU has of the global batch", micro, device)
		r.Out.Derive(pointer, device, "%s %d / %d GPUs", global.Origin.Key, g, w.N)
		micro = device
	}
	r.Out.Derive("/training/gradient_accumulation", (device+micro-1)/micro, "%s %d / (%d × %d GPUs)", global.Origin.Key,
		g, micro, w.N)
}
