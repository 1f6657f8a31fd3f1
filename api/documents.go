package api

import (
	"embed"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/vramplan/vramplan/api/assistant"
	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/openapi"
)

//go:embed web
var web embed.FS

// pagePolicy lets the pages use this service's own style, script and documents, and nothing else; it ends in who may
// show them in a frame.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' " +
	"data:; base-uri 'none'; form-action 'self'; " +
	"require-trusted-types-for 'script'; frame-ancestors "

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
}

// openAPI serves the OpenAPI document.
//
//	@Summary		This document
//	@Description	OpenAPI 3.1, made from the handlers; its examples are run as tests.
//	@ID				openapi
//	@Tags			documentation
//	@Produce		json
//	@Success		200		{object}	object
//	@Failure		400,429	{object}	problem.Problem
//	@Router			/openapi.json [get]
func (a *API) openAPI() endpoint {
	answer := raw{contentType: "application/json", body: openapi.Document}
	return func(http.ResponseWriter, *http.Request, query) (any, error) { return answer, nil }
}

// guide serves the API in short.
//
//	@Summary		The API in short, for language models
//	@Description	What to ask, the routes and the fields of a job in at most 2,000 words (llmstxt.org).
//	@ID				llms
//	@Tags			documentation
//	@Produce		plain
//	@Success		200		{string}	string
//	@Failure		400,429	{object}	problem.Problem
//	@Router			/llms.txt [get]
func (a *API) guide() endpoint {
	return func(http.ResponseWriter, *http.Request, query) (any, error) {
		return raw{contentType: "text/plain; charset=utf-8", body: []byte(assistant.Guide())}, nil
	}
}

// page serves one of the pages, to be shown in frames of the origins whose pages may call the API and of no others.
func page(name string) func(*API) endpoint {
	return func(a *API) endpoint {
		framers := "'none'"
		if len(a.options.Origins) > 0 {
			framers = strings.Join(a.options.Origins, " ")
		}
		body, err := web.ReadFile("web/" + name)
		answer := raw{contentType: contentTypes[".html"], body: body, policy: pagePolicy + framers,
			framed: len(a.options.Origins) > 0}
		return func(http.ResponseWriter, *http.Request, query) (any, error) { return answer, err }
	}
}

// asset serves the styles and scripts of the pages.
//
//	@Summary		Styles and scripts of the pages
//	@Description	What the pages load: plain modules and styles, from nowhere else.
//	@ID				asset
//	@Tags			documentation
//	@Produce		text/css,text/javascript
//	@Param			file	path		string	true	"The file's name"
//	@Success		200		{string}	string
//	@Failure		400,404,429	{object}	problem.Problem
//	@Router			/docs/{file} [get]
func (a *API) asset() endpoint {
	return func(_ http.ResponseWriter, r *http.Request, _ query) (any, error) {
		name := pathParam(r, "file")
		kind, known := contentTypes[path.Ext(name)]
		body, err := web.ReadFile("web/" + name)
		if err != nil || !known || strings.HasSuffix(name, ".html") {
			return nil, problem.New(problem.NotFound, "The pages have no file %q.", clip(name))
		}
		return raw{contentType: kind, body: body}, nil
	}
}

// explainProblem is the page of a problem's type.
//
//	@Summary		What a type of problem means
//	@Description	The page that the type of a problem names, as text.
//	@ID				explainProblem
//	@Tags			documentation
//	@Produce		plain
//	@Param			code	path		string	true	"The problem's code"
//	@Success		200		{string}	string
//	@Failure		400,404,429	{object}	problem.Problem
//	@Router			/problems/{code} [get]
func (a *API) explainProblem() endpoint {
	return func(_ http.ResponseWriter, r *http.Request, _ query) (any, error) {
		code := pathParam(r, "code")
		var codes []string
		for _, k := range problem.Kinds() {
			if k.Code == code {
				text := fmt.Sprintf("%s\n\ncode: %s\nstatus: %d %s\n\n%s\n", k.Title, k.Code, k.Status,
					http.StatusText(k.Status), k.Meaning)
				return raw{contentType: "text/plain; charset=utf-8", body: []byte(text)}, nil
			}
			codes = append(codes, k.Code)
		}
		p := problem.New(problem.NotFound, "There is no type of problem %q.", clip(code))
		p.Suggestions = codes
		return nil, p
	}
}

// The two pages have no handler of their own to carry these annotations.
//
//	@Summary		A reader of this document
//	@Description	A page that shows the OpenAPI document.
//	@ID				docs
//	@Tags		documentation
//	@Produce	html
//	@Success	200		{string}	string
//	@Failure	400,429	{object}	problem.Problem
//	@Router		/docs [get]
func _() {}

// The first page.
//
//	@Summary		The calculator
//	@Description	A job in a form, and beside it what it takes and what makes it fit.
//	@ID			index
//	@Tags		documentation
//	@Produce	html
//	@Success	200		{string}	string
//	@Failure	400,429	{object}	problem.Problem
//	@Router		/ [get]
func _() {}
