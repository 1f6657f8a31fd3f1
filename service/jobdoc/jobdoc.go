package jobdoc

import (
	"reflect"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service/diagnose"
)

// Plan is the document of a plan request: a job and the batch that its
// optimizer step should see.
type Plan struct {
	estimator.Job
	// EffectiveBatch is in sequences over all GPUs and accumulation steps; what the job has today where it is left out.
	EffectiveBatch int64 `json:"effective_batch,omitempty" validate:"omitempty,gte=1,lte=2147483648"`
	// MeasuredSteps are steps of the job that were timed on the first of its GPUs. The time model is fitted to them.
	MeasuredSteps []MeasuredStep `json:"measured_steps,omitempty" validate:"max=16,dive"`
	// Cluster asks how to lay the job out on several GPUs of the first card of gpus: the answer then ranks layouts.
	Cluster *Cluster `json:"cluster,omitempty"`
	// Reading gives the job as files of other tools in place of model and training; the answer then has their patch.
	Reading *Reading `json:"reading,omitempty"`
}

// Cluster is what a job may be spread over.
type Cluster struct {
	// GPUs is how many there are in all; a job that says no effective_batch trains as many sequences, each GPU with
	// what the job runs on one.
	GPUs int64 `json:"gpus" validate:"required,gte=1,lte=65536" example:"64"`
	// GPUsPerNode is how many each host has; 8, or as many as there are, where it is left out.
	GPUsPerNode int64 `json:"gpus_per_node,omitempty" validate:"omitempty,gte=1,lte=65536" example:"8"`
	// NetworkBytesPerSecond is what the network between hosts carries for each GPU, each way; that of the hosts which
	// are sold with the card where it is left out.
	NetworkBytesPerSecond float64 `json:"network_bytes_per_second,omitempty" validate:"omitempty,gte=1000000,lte=10000000000000" example:"50000000000"`
}

// MeasuredStep is an optimizer step that was timed.
type MeasuredStep struct {
	// MicroBatch is that of the job if not given.
	MicroBatch int64 `json:"micro_batch,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// GradientAccumulation is that of the job if not given.
	GradientAccumulation int64 `json:"gradient_accumulation,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// StepTimeSeconds is the time of one whole optimizer step, all accumulation steps of it, once the first few are
	// over.
	StepTimeSeconds float64 `json:"step_time_seconds" validate:"required,gte=0.000001,lte=86400" example:"9.1"`
}

// Comparison is the document of a comparison: two jobs.
type Comparison struct {
	A estimator.Job `json:"a"`
	B estimator.Job `json:"b"`
}

// Decode reads a job to be estimated. The error is an *[invalid.Error].
func Decode(data []byte) (estimator.Job, error) {
	var job estimator.Job
	err := decode(data, &job, located{job: &job, needMicroBatch: true})
	return job, err
}

// DecodePlan reads a job to be planned, which need not say its micro-batch. The
// error is an *[invalid.Error].
func DecodePlan(data []byte) (Plan, error) {
	var plan Plan
	err := decode(data, &plan, located{job: &plan.Job})
	return plan, err
}

// DecodeComparison reads two jobs to be compared. The error is an *[invalid.Error].
func DecodeComparison(data []byte) (Comparison, error) {
	var c Comparison
	err := decode(data, &c, located{at: "/a", job: &c.A, needMicroBatch: true},
		located{at: "/b", job: &c.B, needMicroBatch: true})
	return c, err
}

// Diagnosis is the document of a diagnosis: a text that a run left behind when it ran out of memory and, where it is
// known, the job that ran.
type Diagnosis struct {
	// Text is the message with its traceback, a log, torch.cuda.memory_summary() or what nvidia-smi printed; of a
	// longer text the end is read.
	Text string `json:"text,omitempty" validate:"required_without=Snapshot,max=1048576" example:"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 786.00 MiB. GPU 0 has a total capacity of 15.78 GiB of which 620.69 MiB is free."`
	// Job is what ran; without gpus it is judged on the card that the message speaks of.
	Job *estimator.Job `json:"job,omitempty"`
	// Reading gives the job as files of other tools in place of job.
	Reading *Reading `json:"reading,omitempty"`
	// Snapshot is a memory snapshot of the run as torch.cuda.memory._dump_snapshot writes it, or that made smaller by
	// gzip, in base64. It is read as data, and nothing of it is run; text can be left out beside it.
	Snapshot string `json:"snapshot,omitempty" validate:"max=4194304" format:"byte"`
	// Held is what a memory snapshot had allocated, in place of the snapshot: vramplan diagnose --snapshot reads the
	// file where it is and sends this.
	Held *diagnose.Allocations `json:"held,omitempty"`
}

// DecodeDiagnosis reads a text to be explained, with its job where it is given. The error is an *[invalid.Error].
func DecodeDiagnosis(data []byte) (Diagnosis, error) {
	var d Diagnosis
	err := decodeThen(data, &d, func() []located {
		if d.Job == nil {
			return nil
		}
		return []located{{at: "/job", job: d.Job, needMicroBatch: true}}
	})
	return d, err
}

// Reading is the document of a reading: the texts of other tools' files, and the line that starts the job.
type Reading struct {
	// Files are texts by their names, as the scripts and configurations among them name each other.
	Files map[string]string `json:"files,omitempty" validate:"omitempty,max=32,dive,keys,min=1,max=300,endkeys,max=1048576"`
	// Read names the files to begin with; where it is left out, all are looked at.
	Read []string `json:"read,omitempty" validate:"omitempty,max=32,dive,min=1,max=300"`
	// Command is the command line that starts the job, as a shell takes it.
	Command string `json:"command,omitempty" validate:"omitempty,max=65536" example:"torchrun --nproc_per_node=8 train.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --block_size 1024 --bf16"`
	// Known is what the user says besides the files.
	Known Known `json:"known"`
}

// Known is what the user says besides the files.
type Known struct {
	// GPUs is on how many GPUs the job runs.
	GPUs int64 `json:"gpus,omitempty" validate:"omitempty,gte=1,lte=1048576" example:"8"`
	// Set are fields of the job document by their paths, such as sequence_length or model.
	Set map[string]string `json:"set,omitempty" validate:"omitempty,max=64,dive,keys,min=1,max=100,endkeys,max=65536"`
	// Ignore are words of the files that change nothing in memory.
	Ignore []string `json:"ignore,omitempty" validate:"omitempty,max=64,dive,min=1,max=100"`
}

// Measured is what a run was seen to take.
type Measured struct {
	// AllocatedBytes is torch.cuda.max_memory_allocated().
	AllocatedBytes int64 `json:"allocated_bytes,omitempty" validate:"gte=0,lte=9007199254740991" example:"17678310912"`
	// ReservedBytes is torch.cuda.max_memory_reserved().
	ReservedBytes int64 `json:"reserved_bytes,omitempty" validate:"gte=0,lte=9007199254740991" example:"19558039552"`
	// DeviceBytes is what nvidia-smi shows for the process.
	DeviceBytes int64 `json:"device_bytes,omitempty" validate:"gte=0,lte=9007199254740991" example:"19984809984"`
	// OutOfMemory says that the run failed for want of memory: it needs more than the card has.
	OutOfMemory bool `json:"out_of_memory,omitempty"`
}

// Observation is a job and what it was measured to take.
type Observation struct {
	// Job is the job that ran; gpus names the one card that it was measured on.
	Job      estimator.Job `json:"job"`
	Measured Measured      `json:"measured"`
	// Versions of the software that ran, such as torch, cuda and driver.
	Versions map[string]string `json:"versions,omitempty" validate:"max=32,dive,keys,max=64,endkeys,max=64"`
	// Source says who measured.
	Source string `json:"source,omitempty" validate:"omitempty,max=100" example:"hf-callback"`
	Note   string `json:"note,omitempty" validate:"omitempty,max=1000"`
}

// DecodeObservation reads a job with what it was measured to take. The error is an *[invalid.Error].
func DecodeObservation(data []byte) (Observation, error) {
	var o Observation
	err := decode(data, &o, located{at: "/job", job: &o.Job, needMicroBatch: true})
	return o, err
}

// Read reads a document that holds no job into a new T, a struct, by the json
// and validate tags of T. The error is an *[invalid.Error].
func Read[T any](data []byte) (T, error) {
	var document T
	err := decode(data, &document)
	return document, err
}

// Check normalises and checks a job that was put together from something else
// than a document, such as command-line flags. The error is an *[invalid.Error].
func Check(job *estimator.Job) error {
	Normalize(job)
	c := checker{root: schemaOf(reflect.TypeFor[estimator.Job]())}
	return c.run(job, []located{{job: job, needMicroBatch: true}}, nil)
}

// decode reads data into dst, a pointer to a struct in which jobs lie.
func decode(data []byte, dst any, jobs ...located) error {
	return decodeThen(data, dst, func() []located { return jobs })
}

// decodeThen is decode for documents that need not hold their jobs: found says which there are once they are read.
func decodeThen(data []byte, dst any, found func() []located) error {
	v := reflect.ValueOf(dst).Elem()
	root := schemaOf(v.Type())
	problems, complete, doubtful := read(data, root, v)
	if !complete {
		return &invalid.Error{Fields: problems}
	}
	jobs := found()
	for _, l := range jobs {
		Normalize(l.job)
	}
	c := checker{root: root, data: data, sound: !doubtful}
	return c.run(dst, jobs, problems)
}
