// Package tool is what a reader of a tool is: a row of the table, and the job that it is given to read.
package tool

import (
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/programs"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
)

// Tool is one reader: a row of the table.
type Tool struct {
	Name string
	// New is what reads one job of the tool.
	New func(*Job) Reader
	// Marks are keys by which the tool's own file is recognised; the weights of those that are there add up.
	Marks map[string]int
	// Program takes a program in Python that was handed over without a command; nil where it is none of the tool's.
	// The reader is nil for one that is refused at once.
	Program func(f *source.Files, full string, text []byte) (*Job, Reader)
	// Words are the tool's own names for fields of a job document, for patches.
	Words Words
	// Still are words that move no memory, whatever their values are; those that end in "=" are switches.
	Still string
	// Command is the tool's own program; "" where it has none.
	Command string
	// Faithful says that this program does what its settings say and nothing else: no code of the user's is in it.
	Faithful bool
}

// Reader reads one job of a tool.
type Reader interface {
	// Starts recognises the tool in a command, and gathers its settings.
	Starts() bool
	// Read maps settings to fields.
	Read()
}

// Job is one job on its way from settings to a draft: what every tool is given to read, and where it says what it read.
type Job struct {
	*launch.Launch
	// In are the tool's settings: its command line over its file.
	In *setting.Settings
	// Out is the job document in the making.
	Out *draft.Draft
	// File is the tool's configuration, "" where there is none.
	File string
	// Code is the program, where it could be opened.
	Code *programs.Program
	// Sharded is set where a launcher or a file deals the model out.
	Sharded bool
	// Beneath are the defaults of a tool that is known by how its file is named to it; nil otherwise.
	Beneath *setting.Settings
	// Compare holds the program that is started against those of the tool's releases, and is false where it is another
	// program; nil for tools whose programs nobody knows.
	Compare func() bool
	// Dequantized are the methods of quantization whose weights the tool brings back as it loads them.
	Dequantized []string
	// allocated says that something set the allocator.
	allocated bool
}

// Of is a job that a command starts, for a tool of that name.
func Of(l *launch.Launch, name string) *Job {
	copied := l.Clone()
	j := &Job{Launch: copied, Out: draft.New(name)}
	if l.At.Known() {
		j.Out.Command = &draft.Place{File: l.At.File, Line: l.At.Line}
	}
	return j
}

// Starts is false for tools that no command starts: their files are parts of jobs, or are handed over alone.
func (*Job) Starts() bool { return false }

// Prepare runs what came up while the command was taken apart.
func (r *Job) Prepare() {
	for _, p := range r.Problems {
		p(r.Out)
	}
}
