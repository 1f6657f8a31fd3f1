package api

import (
	"net/http"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// diagnose explains why a run ran out of memory.
//
//	@Summary		Explain an out-of-memory message
//	@Description	What a run printed: a message of any release of PyTorch with its traceback, a log around it, memory_summary(), nvidia-smi's table or CSV, a failure of cuBLAS or NCCL. Or a memory snapshot of PyTorch: then held has what held the memory by the replay's names, and where the run departs from what was predicted. Returns what was read of it, what it is put down to and how surely, what helps and what does not. With the job that ran, the tensor is named where its size tells, and a plan is added where the job has a card or the message speaks of one. With reading in place of job, as /v1/read takes it, the job is that of the files. The text is neither kept nor logged.
//	@ID				diagnose
//	@Tags			estimates
//	@Accept			json
//	@Produce		json
//	@Param			request	body		jobdoc.Diagnosis	true	"The text, and the job where it is known"
//	@Success		200		{object}	service.Diagnosis
//	@Failure		400,408,413,415,422,429,500,503	{object}	problem.Problem
//	@Router			/v1/diagnose [post]
func (a *API) diagnose() endpoint {
	return func(w http.ResponseWriter, r *http.Request, _ query) (any, error) {
		body, release, err := a.readJobUpTo(w, r, maxDiagnosisBytes)
		if err != nil {
			return nil, err
		}
		defer release()
		files, err := a.fileJob(r, body, "job")
		if err != nil {
			return nil, err
		}
		if files != nil {
			if body, err = files.Within(body, "job"); err != nil {
				return nil, err
			}
		}
		request, err := jobdoc.DecodeDiagnosis(body)
		if err != nil {
			if request.Job == nil {
				return nil, err
			}
			return nil, a.service.Names(r.Context(), err, *request.Job, "/job")
		}
		return a.service.Diagnose(r.Context(), service.DiagnosisRequest{Text: request.Text, Job: request.Job,
			Snapshot: request.Snapshot, Held: request.Held})
	}
}
