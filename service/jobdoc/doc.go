// Package jobdoc reads job documents strictly.
//
// encoding/json is forgiving where a memory estimate must not be: it matches
// names without regard to case, lets the last of two equal keys win, stops at
// the first unknown field and the first wrong type. A misspelt
// "micro_batch_siz" that is silently dropped turns into a wrong "fits". This
// package walks the tokens of a document beside a schema that it derives from
// the Go types and their json and validate tags, and reports everything that is
// wrong at once, as an [invalid.Error] of field errors with JSON pointers:
//
//   - what is not JSON, or not this document: malformed_json, too_deep,
//     unknown_field, duplicate_field ([Malformed] tells; HTTP answers 400);
//   - what is this document with impossible values: wrong_type, out_of_range,
//     unknown_value, required, conflict, too_large (HTTP answers 422).
//
// The spellings of common tools ("bf16-mixed", "adamw_torch_fused") are then
// turned into the values of the contract, see aliases.go.
//
// The objects under /model/hf_config and /training/distributed/deepspeed belong
// to other tools and are kept as they are: any key is welcome there, but two
// equal keys are refused, because nobody can say which of them was meant.
package jobdoc
