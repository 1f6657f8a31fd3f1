// Package defaults is the table of what training frameworks and their packages take for settings that nobody gives, by
// release, and what a job that names its framework is with them. Documents are completed by it where they are resolved
// ([Filled]), and readers of other tools' files read the same rows ([For]).
package defaults
