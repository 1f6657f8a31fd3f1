package diagnose

import (
	"regexp"
	"slices"
	"strings"
)

// Kind is what sort of text a message is.
type Kind string

// The kinds of messages.
const (
	// KindAllocator is PyTorch's allocator that did not get a segment.
	KindAllocator Kind = "torch-oom"
	// KindCUDA is a call of CUDA outside the allocator that failed for memory; nothing in it has a size.
	KindCUDA Kind = "cuda-error"
	// KindCUBLAS is cuBLAS or cuDNN that could not make its handle.
	KindCUBLAS Kind = "cublas"
	// KindNCCL is NCCL's own allocation.
	KindNCCL Kind = "nccl"
	// KindSummary is torch.cuda.memory_summary().
	KindSummary Kind = "memory-summary"
	// KindSMI is nvidia-smi.
	KindSMI Kind = "nvidia-smi"
	// KindJAX and KindTensorFlow are other libraries' allocators.
	KindJAX        Kind = "jax-oom"
	KindTensorFlow Kind = "tensorflow-oom"
	// KindHost is memory of the machine, not of a card.
	KindHost Kind = "host-oom"
	// KindServing is vLLM that finds no room for its cache of keys and values.
	KindServing Kind = "serving"
	// KindKernel is a kernel whose tiles do not fit the memory inside a multiprocessor.
	KindKernel Kind = "kernel-resources"
	// KindFault is an access to memory that is not the program's: a bug, and no shortage.
	KindFault Kind = "cuda-fault"
	// KindUnrecognised is text without any of these.
	KindUnrecognised Kind = "unrecognised"
)

// Process is what the message says of one process on the card.
type Process struct {
	PID   int   `json:"pid"`
	Bytes int64 `json:"bytes"`
	// ThisProcess says that it is the one that failed: inside a container's own list of processes it does not know
	// itself.
	ThisProcess bool `json:"this_process"`
}

// Message is one failure, as far as its text says. Sizes that it does not say are nil.
type Message struct {
	Kind Kind `json:"kind"`
	// Backend is who failed: cuda, hip, xpu, mps, cpu.
	Backend string `json:"backend"`
	// Line is where it stands in the text, from 1.
	Line int `json:"line"`
	// Rank is the process of a distributed run, nil where nothing says it.
	Rank *int `json:"rank,omitempty"`
	// Count is how many messages of other ranks say the same.
	Count  int    `json:"count"`
	Device *int   `json:"device,omitempty"`
	Text   string `json:"text"`

	RequestedBytes *int64 `json:"requested_bytes,omitempty"`
	TotalBytes     *int64 `json:"total_bytes,omitempty"`
	FreeBytes      *int64 `json:"free_bytes,omitempty"`
	AllocatedBytes *int64 `json:"allocated_bytes,omitempty"`
	// ReservedBytes holds what is allocated too, whatever the release printed.
	ReservedBytes    *int64    `json:"reserved_bytes,omitempty"`
	UnallocatedBytes *int64    `json:"unallocated_bytes,omitempty"`
	ThisProcessBytes *int64    `json:"this_process_bytes,omitempty"`
	AllowedBytes     *int64    `json:"allowed_bytes,omitempty"`
	PrivateBytes     *int64    `json:"private_pools_bytes,omitempty"`
	OtherBytes       *int64    `json:"other_allocations_bytes,omitempty"`
	Processes        []Process `json:"processes,omitempty"`
	// NoFigure says that it printed a number that stands for an unknown one.
	NoFigure bool `json:"no_figure,omitempty"`

	requested size
}

// Requests is the sizes of a tensor that the message may be about, and whether it says one at all.
func (m *Message) Requests() (Window, bool) {
	if m.RequestedBytes == nil {
		return Window{}, false
	}
	return m.requested.requests(), true
}

// LimitBytes is what the card leaves this process's allocator by the first message, 0 where it does not say: what it
// has reserved and what is free.
func (t *Text) LimitBytes() int64 {
	if len(t.Messages) == 0 {
		return 0
	}
	m := &t.Messages[0]
	if m.ReservedBytes == nil || m.FreeBytes == nil {
		return 0
	}
	return *m.ReservedBytes + *m.FreeBytes
}

// heads begin a message, in squeezed text.
var heads = []struct {
	kind    Kind
	backend string
	head    *regexp.Regexp
}{
	{KindAllocator, "mps", regexp.MustCompile(`(?i)MPSbackendoutofmemory`)},
	{KindAllocator, "", regexp.MustCompile(`(?i)(?:CUDA|HIP|XPU|NPU|MUSA|MLU)outofmemory\.?`)},
	{KindAllocator, "cuda", regexp.MustCompile(`(?i)Allocationondevice\d*(?:wouldexceedallowedmemory)?`)},
	{KindNCCL, "cuda", regexp.MustCompile(`(?i)NCCL[^.]{0,200}?outofmemory|ncclUnhandledCudaError[^.]{0,400}?outofmemory|Cudafailure(?:\d+)?'?outofmemory|FailedtoCUDA(?:host)?(?:c|m)alloc`)},
	{KindCUBLAS, "cuda", regexp.MustCompile(`CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|CUDNN_STATUS_NOT_INITIALIZED|CUBLAS_STATUS_NOT_INITIALIZED|CUSOLVER_STATUS_ALLOC_FAILED|CUSPARSE_STATUS_(?:ALLOC_FAILED|INSUFFICIENT_RESOURCES)|UnabletofindavalidcuDNNalgorithm|unabletofindanenginetoexecutethiscomputation`)},
	{KindCUDA, "cuda", regexp.MustCompile(`(?i)cudaruntimeerror\(2\):outofmemory|CUDAerror:outofmemory|CUDAdrivererror:outofmemory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|HIPerror:outofmemory|hipErrorOutOfMemory|Erroroutofmemoryatline\d+`)},
	{KindJAX, "cuda", regexp.MustCompile(`RESOURCE_EXHAUSTED:Outofmemory(?:whiletryingtoallocate|allocating)`)},
	{KindTensorFlow, "cuda", regexp.MustCompile(`OOMwhenallocatingtensorwithshape`)},
	{KindHost, "cpu", regexp.MustCompile(`(?i)DefaultCPUAllocator:(?:notenough|can'tallocate)memory|oom-?kill(?:er|event)?|oom_kill|Outofmemory:Killed?process|insufficientsharedmemory\(shm\)|Cannotallocatememory|std::bad_alloc|ExitedwithexitCode137|exitcode:-9|returncode=-9|OOMKilled|outofsharedmemory|WinError1455|pagingfileistoosmall|(?:^|[^Ff])MemoryError:`)},
	{KindServing, "cuda", regexp.MustCompile(`(?i)Noavailablememoryforthecacheblocks|lessthandesiredGPUmemoryutilization|maximumnumberoftokensthatcanbestoredinKVcache`)},
	{KindKernel, "cuda", regexp.MustCompile(`(?i)OutOfResources:outofresource|outofresource:sharedmemory|toomanyresourcesrequestedforlaunch`)},
	{KindFault, "cuda", regexp.MustCompile(`(?i)CUDAerror:(?:anillegalmemoryaccess|misalignedaddress|device-sideassert)`)},
}

// windowMost is how far the parts of a message may lie behind its head, in bytes of squeezed text.
const windowMost = 2400

const sizeText = `\*{0,2}([0-9][0-9,]*(?:\.[0-9]+)?)(bytes|[KMGT]i?B|B)\*{0,2}`

// parts are where the sizes of a message stand. They are searched one by one: releases, forks and logs leave some out
// and put others in between.
var parts = []struct {
	find *regexp.Regexp
	set  func(m *Message, s size)
}{
	{regexp.MustCompile(`(?i)(?:triedtoallocate|Requested:|tryingtoallocate|allocating|youtriedtoallocate)` + sizeText),
		func(m *Message, s size) {
			m.RequestedBytes, m.requested = &s.bytes, s
		}},
	{regexp.MustCompile(`(?i)` + sizeText + `totalcapaci?ty|totalcapaci?tyof` + sizeText + `|Devicelimit:` + sizeText +
		`|maxallowed:` + sizeText), func(m *Message, s size) {
		m.TotalBytes = &s.bytes
	}},
	{regexp.MustCompile(`(?i)` + sizeText + `alreadyallocated|` + sizeText +
		`isallocatedbyPyTorch|Currentlyallocated:` + sizeText + `|MPSallocated:` + sizeText), func(m *Message, s size) {
		m.AllocatedBytes = &s.bytes
	}},
	{regexp.MustCompile(`(?i)ofwhich` + sizeText + `isfree|Free\(accordingtoCUDA\):` + sizeText + `|;` + sizeText +
		`free[;)]`), func(m *Message, s size) {
		m.FreeBytes = &s.bytes
	}},
	{regexp.MustCompile(`(?i)` + sizeText + `reservedintotalbyPyTorch`), func(m *Message, s size) {
		m.ReservedBytes = &s.bytes
	}},
	{regexp.MustCompile(`(?i)` + sizeText + `cached`), func(m *Message, s size) { m.UnallocatedBytes = &s.bytes }},
	{regexp.MustCompile(`(?i)` + sizeText + `isreservedbyPyTorchbutunallocated`), func(m *Message, s size) {
		m.UnallocatedBytes = &s.bytes
	}},
	{regexp.MustCompile(`(?i)thisprocesshas` + sizeText + `memoryinuse`), func(m *Message, s size) {
		if s.bytes > 0 { // a container's NVML knows nothing of its processes
			m.ThisProcessBytes = &s.bytes
		}
	}},
	{regexp.MustCompile(`(?i)` + sizeText + `allowed;`), func(m *Message, s size) { m.AllowedBytes = &s.bytes }},
	{regexp.MustCompile(`(?i)with` + sizeText + `allocatedinprivatepools`), func(m *Message, s size) {
		m.PrivateBytes = &s.bytes
	}},
	{regexp.MustCompile(`(?i)otherallocations:` + sizeText), func(m *Message, s size) { m.OtherBytes = &s.bytes }},
}

var (
	deviceOf  = regexp.MustCompile(`(?i)GPU(\d+)(?:;|hasatotal)|ondevice(\d+)`)
	processes = regexp.MustCompile(`(?i)Process(\d+)has` + sizeText + `memoryinuse`)
)

// messages finds the failures in a text, in their order.
func messages(all []line) []Message {
	text := squeeze(all)
	type found struct {
		at, end, head int
	}
	var starts []found
	for i, h := range heads {
		for _, at := range h.head.FindAllStringIndex(text.text, maxMessages) {
			starts = append(starts, found{at[0], at[1], i})
		}
	}
	slices.SortFunc(starts, func(a, b found) int {
		if a.at != b.at {
			return a.at - b.at
		}
		return a.head - b.head
	})
	var list []Message
	for i, s := range starts {
		if i > 0 && s.at < starts[i-1].end {
			continue // the same words under another head
		}
		end := min(len(text.text), s.at+windowMost)
		for _, next := range starts[i+1:] {
			if next.at >= s.end {
				end = min(end, next.at)
				break
			}
		}
		h := heads[s.head]
		m := Message{Kind: h.kind, Backend: h.backend, Line: int(text.line[s.at]) + 1, Count: 1}
		if m.Backend == "" {
			m.Backend = strings.ToLower(text.text[s.at : s.at+strings.Index(strings.ToLower(text.text[s.at:]), "out")])
		}
		if r := all[text.line[s.at]].rank; r >= 0 {
			m.Rank = &r
		}
		m.Text = clip(strings.TrimSpace(all[text.line[s.at]].text), 240)
		m.read(text.text[s.at:end])
		list = add(list, m)
		if len(list) == maxMessages {
			break
		}
	}
	return list
}

// read sets what the squeezed text says.
func (m *Message) read(text string) {
	for _, p := range parts {
		found := p.find.FindStringSubmatch(text)
		for g := 1; g+1 < len(found); g += 2 {
			if found[g] == "" {
				continue
			}
			s, ok := parseSize(found[g], found[g+1])
			if ok {
				p.set(m, s)
			}
			m.NoFigure = m.NoFigure || !ok
		}
	}
	if d := deviceOf.FindStringSubmatch(text); d != nil {
		device := atoi(d[1] + d[2])
		m.Device = &device
	}
	for _, p := range processes.FindAllStringSubmatch(text, maxProcesses) {
		if s, ok := parseSize(p[2], p[3]); ok {
			m.Processes = append(m.Processes, Process{PID: atoi(p[1]), Bytes: s.bytes})
		}
	}
	switch {
	case m.ReservedBytes == nil && m.AllocatedBytes != nil && m.UnallocatedBytes != nil:
		reserved := *m.AllocatedBytes + *m.UnallocatedBytes
		m.ReservedBytes = &reserved
	case m.UnallocatedBytes == nil && m.AllocatedBytes != nil && m.ReservedBytes != nil:
		unallocated := max(0, *m.ReservedBytes-*m.AllocatedBytes)
		m.UnallocatedBytes = &unallocated
	}
}

// add appends m, or counts it where a message of another rank says the same.
func add(list []Message, m Message) []Message {
	for i := range list {
		o := &list[i]
		if o.Kind == m.Kind && same(o.RequestedBytes, m.RequestedBytes) && same(o.TotalBytes, m.TotalBytes) &&
			same(o.AllocatedBytes, m.AllocatedBytes) && same(o.FreeBytes, m.FreeBytes) {
			o.Count++
			return list
		}
	}
	return append(list, m)
}

func same(a, b *int64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " …"
}
