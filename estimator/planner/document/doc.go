// Package document is a plan as users read it: its fields, which are those of the API's answer, and the pages that it
// is printed on.
//
//	p.Text()     // a terminal of 80 columns (page.go, layoutpage.go)
//	p.WideText() // as wide as it takes, with all there is (render.go)
//	p.Markdown() // the same as a document
//
// It knows nothing of how a plan is found. What both say in the same words is in sayings.go.
package document
