// Package asking asks the estimator about candidates. An [Asker] has one job on one card: it asks about a set of levers
// at a pair ([Asker.Judge] and what stands beside it in least.go), remembers every answer for the length of a plan
// (costs.go), asks no more than a plan may (budget.go), and says how long a step of a candidate takes beside the one
// that it is told to compare with. What it has to tell its user is in its notes.
//
// Which candidates are worth a question is the business of those that hold an asker.
package asking
