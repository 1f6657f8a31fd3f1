package api

import (
	"net/http"

	"github.com/vramplan/vramplan/service/jobdoc"
)

// read turns files of other tools into job documents.
//
//	@Summary		Read batch scripts, launch lines and configurations of trainers
//	@Description	Texts of files by their names, and the command line that starts the job where there is one. Returns a job document for every training job in them, where each of its fields stands (file and line, the tool's default with its release, or how it is derived), what no file says as questions, all at once, and what cannot be answered as refusals with the line and the word. Nothing is executed, and the texts are neither kept nor logged.
//	@ID				read
//	@Tags			estimates
//	@Accept			json
//	@Produce		json
//	@Param			request	body		jobdoc.Reading	true	"The texts, and what the user knows besides"
//	@Success		200		{object}	readers.Answer
//	@Failure		400,408,413,415,422,429,500,503	{object}	problem.Problem
//	@Router			/v1/read [post]
func (a *API) read() endpoint {
	return func(w http.ResponseWriter, r *http.Request, _ query) (any, error) {
		body, release, err := a.readJob(w, r)
		if err != nil {
			return nil, err
		}
		defer release()
		request, err := jobdoc.Read[jobdoc.Reading](body)
		if err != nil {
			return nil, err
		}
		return a.service.Read(r.Context(), request)
	}
}
