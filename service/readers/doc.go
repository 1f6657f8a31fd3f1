// Package readers turns what people have, batch scripts, launch lines and the configuration files of trainers, into job
// documents, and says for every field where it stands.
//
// [Read] follows the chain as the tools do: batch script, wrappers, launcher, the launcher's own file, program, the
// tool's file, DeepSpeed's JSON. Nothing is executed and nothing is opened but through [Source.ReadFile]. What no file
// says is asked, all of it at once; what cannot be answered is refused with the line and the word that stands in the
// way.
//
// The package has three layers. Packages setting and decode turn text into values that know their place. A [command] is
// one launch line of a script, taken apart by launcher.go. A tool's reader (one file a tool, listed in registry.go)
// maps settings to fields of a [draft] by tables of the tool's own words and defaults, each default with its release
// and source line. It touches no text, so that the same spans serve for patches ([Answer.Patch]).
package readers
