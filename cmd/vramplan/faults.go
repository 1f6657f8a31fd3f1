package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/cmd/vramplan/screen"
)

// howToReport is what stands behind every fault of the program's own.
const howToReport = "This is a fault of vramplan, not of the job. Please report it with the command, the job document, " +
	"the output of \"vramplan version\" and the lines that begin with \"at\"."

// maxFrames is how much of a stack is shown: the place, and who came to it.
const maxFrames = 4

// fault puts a panic into plain words, with the places of the program where it happened.
func fault(cause any, stack []byte) string {
	var b strings.Builder
	fmt.Fprintf(&b, "internal error: %s. %s", screen.Plain(fmt.Sprint(cause)), howToReport)
	for _, frame := range ownFrames(string(stack)) {
		b.WriteString("\n  at " + frame)
	}
	return b.String()
}

// ownFrames are the uppermost places of a stack, as runtime/debug prints it, that are the program's own: each is a line
// with the function, and one with the file and the line.
func ownFrames(stack string) (frames []string) {
	const module = "github.com/vramplan/vramplan/"
	within := ""
	for line := range strings.Lines(stack) {
		file, isFile := strings.CutPrefix(line, "\t")
		function, own := strings.CutPrefix(line, module)
		switch {
		case strings.HasPrefix(line, "panic("):
			frames, within = nil, "" // what runs the deferred call is above it
		case isFile && within != "" && len(frames) < maxFrames:
			file, _, _ = strings.Cut(strings.TrimSpace(file), " +0x")
			frames = append(frames, screen.Plain(within+"/"+path.Base(file)))
		case isFile:
		case own:
			dir, last := path.Split(function)
			last, _, _ = strings.Cut(last, ".")
			within = dir + last
		case strings.HasPrefix(line, "main."):
			within = "cmd/vramplan"
		default:
			within = ""
		}
	}
	return frames
}

// faults is where the log of the API in this process goes: a line of JSON that a service would keep is put into words.
type faults struct{ w io.Writer }

// Write prints one line of the log.
func (f faults) Write(line []byte) (int, error) {
	var logged struct {
		Panic any    `json:"panic"`
		Stack string `json:"stack"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(line, &logged); err != nil || logged.Panic == nil && logged.Error == "" {
		return f.w.Write(line)
	}
	cause := logged.Panic
	if cause == nil {
		cause = logged.Error
	}
	if _, err := fmt.Fprintln(f.w, "vramplan: "+fault(cause, []byte(logged.Stack))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// ofThisProcess says of a failure in this process what the API says of a service's, whose log nobody has here.
func ofThisProcess(p *problem.Problem) {
	if p.Status == http.StatusInternalServerError {
		p.Detail = "No answer, because of an internal error."
	}
}
