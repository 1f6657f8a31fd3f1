// Package fields reads single fields of the job document: names of types, optimizers and precisions, and which fields a
// kind of training reads. It knows no model.
package fields
