package shell

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Write is a file that the script writes or may write.
type Write struct {
	// Name is absolute; empty where any file may be meant. A directory stands for all in it.
	Name string
	// Text is what the file holds afterwards; nil where that cannot be told.
	Text    *Word
	written []byte // Text as a file has it
	// Program is the text of a program that may write it: it then stands for the files that the text mentions.
	Program []byte
	// How says what writes it: "> in line 3", "sed in line 4".
	How  string
	At   Span
	Runs Runs
}

// RewrittenError is a file whose contents depend on what the script does before.
type RewrittenError struct {
	Name string
	By   Write
}

func (e *RewrittenError) Error() string {
	return fmt.Sprintf("%s is, or may be, written by the script before (%s)", e.Name, e.By.How)
}

// Open gives a file as a command of the script finds it. A relative name begins in the command's directory. The error
// is a *[RewrittenError], one that wraps fs.ErrNotExist, or another of ReadFile.
func (s *Script) Open(c *Command, name string) ([]byte, error) {
	if !filepath.IsAbs(name) {
		if c.Dir.Certainty < Sure {
			return nil, fmt.Errorf("nobody knows in which directory %s lies: %s", clip(name), c.Dir.Reason)
		}
		name = filepath.Join(c.Dir.Text, name)
	}
	return s.at(name, c.writes)
}

// redirect notes the files that redirections write, and gives the text of a here-document. copies says that the command
// writes what it reads.
func (r *reader) redirect(st *state, redirs []*syntax.Redirect, copies bool) (stdin *Word) {
	for _, rd := range redirs {
		switch rd.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			w := r.heredoc(st, rd)
			stdin = &w
		case syntax.WordHdoc:
			w := r.word(st, rd.Word)
			w = wordOf(append(append([]Piece(nil), w.Pieces...), Piece{Text: "\n", Certainty: Sure}))
			stdin = &w
		case syntax.RdrIn:
			copies = false
		}
	}
	for _, rd := range redirs {
		switch rd.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrAll, syntax.AppAll, syntax.RdrClob, syntax.RdrInOut, syntax.DplOut:
			name := r.word(st, rd.Word)
			if rd.Op == syntax.DplOut && strings.Trim(name.Text, "0123456789-") == "" ||
				strings.HasPrefix(name.Text, "/dev/") {
				continue
			}
			var text *Word
			if copies && rd.N == nil && (rd.Op == syntax.RdrOut || rd.Op == syntax.RdrClob) {
				text = stdin
			}
			r.write(st, name, text, fmt.Sprintf("%s in line %d", rd.Op, r.line(rd)), r.span(rd))
		}
	}
	return stdin
}

// copies knows cat without a file.
func copies(words []Word) bool {
	return len(words) > 0 && words[0].Certainty == Sure && path.Base(words[0].Text) == "cat" &&
		(len(words) == 1 || len(words) == 2 && words[1].Text == "-")
}

// heredoc is the text of a here-document, with variables filled in unless its end was quoted.
func (r *reader) heredoc(st *state, rd *syntax.Redirect) Word {
	if rd.Hdoc == nil {
		return Word{Certainty: Sure}
	}
	b := builder{r: r, st: st, node: rd.Hdoc, whole: true}
	quoted := false
	for _, p := range rd.Word.Parts {
		if lit, ok := p.(*syntax.Lit); !ok || strings.Contains(lit.Value, `\`) {
			quoted = true
		}
	}
	for _, p := range rd.Hdoc.Parts {
		lit, ok := p.(*syntax.Lit)
		switch {
		case ok && (quoted || !strings.Contains(lit.Value, `\`)):
			piece := Piece{Text: lit.Value, Certainty: Sure}
			if at := r.span(lit); at.End-at.Start == len(lit.Value) && rd.Op == syntax.Hdoc {
				piece.At = at
			}
			b.begun = true
			b.add(piece)
		case ok:
			b.begun = true
			b.add(Piece{Text: unescape(lit.Value, true), Certainty: Sure})
		default:
			b.parts([]syntax.WordPart{p}, true)
		}
	}
	w := b.finish()[0]
	if rd.Op == syntax.DashHdoc {
		lines := strings.Split(w.Text, "\n")
		for i := range lines {
			lines[i] = strings.TrimLeft(lines[i], "\t")
		}
		p := flat(w)
		p.Text = strings.Join(lines, "\n")
		w = wordOf([]Piece{p})
	}
	return w
}

// maxWrites bounds what is noted of files.
const maxWrites = 4096

// write notes a file.
func (r *reader) write(st *state, name Word, text *Word, how string, at Span) {
	if len(r.script.Writes) == maxWrites {
		r.fail(&LimitError{"the number of files that the script writes"})
		return
	}
	w := Write{Text: text, How: how, At: at}
	w.Runs, _, _ = st.runs()
	switch {
	case name.Certainty < Sure && isLog(name):
		return
	case name.Certainty < Sure:
	case filepath.IsAbs(name.Text):
		w.Name = filepath.Clean(name.Text)
	case st.dir.Certainty == Sure:
		w.Name = filepath.Join(st.dir.Text, name.Text)
	case isLog(name):
		return
	}
	r.script.Writes = append(r.script.Writes, w)
}

// isLog says whether a name that is not known as a whole is at least not that of a configuration or a program.
func isLog(name Word) bool {
	switch path.Ext(name.Text) {
	case ".log", ".out", ".err", ".txt", ".csv", ".png", ".pt", ".bin", ".tar", ".gz":
		return len(name.Pieces) > 0 && name.Pieces[len(name.Pieces)-1].Certainty == Sure
	}
	return false
}

// harmless are programs that write none of the files which they are told of.
var harmless = map[string]bool{
	"echo": true, "cat": true, "ls": true, "head": true, "tail": true, "grep": true, "wc": true, "du": true, "df": true,
	"date": true, "hostname": true, "nvidia-smi": true, "sleep": true,
	"mkdir": true, "chmod": true, "chown": true, "which": true, "module": true, "ml": true, "conda": true,
	"mamba": true, "micromamba": true, "pip": true, "pip3": true, "sbatch": true, "squeue": true, "scontrol": true,
	"sha256sum": true, "md5sum": true, "diff": true, "cmp": true, "stat": true, "file": true, "find": true,
	"kill": true, "wandb": true, "nproc": true, "free": true, "lscpu": true, "basename": true,
	"dirname": true, "realpath": true, "pwd": true, "tr": true, "cut": true, "sort": true, "uname": true,
	"whoami": true, "id": true, "mail": true,
}

// launchers start training programs, whose words name what they read.
var launchers = map[string]bool{
	"torchrun": true, "accelerate": true, "deepspeed": true, "axolotl": true, "llamafactory-cli": true, "trl": true,
	"tune": true, "litgpt": true, "composer": true, "swift": true, "xtuner": true,
}

// anywhere are programs that write files which their words do not tell.
var anywhere = map[string]bool{
	"git": true, "tar": true, "unzip": true, "rsync": true, "patch": true, "make": true, "scp": true, "wget": true,
	"curl": true, "dvc": true, "aws": true, "gsutil": true, "gcloud": true, "hg": true, "svn": true,
	"apply": true, "docker": true, "ssh": true, "xargs": true, "parallel": true, "perl": true, "ruby": true,
}

// wrote notes the files that a command may write: all that it is told of, unless it is known to write others or none.
func (r *reader) wrote(st *state, c *Command) {
	words, _ := c.Unwrap()
	if len(words) == 0 {
		return
	}
	name, line := path.Base(words[0].Text), c.At.Line
	how := fmt.Sprintf("%s in line %d", clip(name), line)
	switch {
	case words[0].Certainty < Sure:
		r.write(st, unknownWord(words[0].Reason), nil, fmt.Sprintf("a command in line %d that is known "+
			"only when it runs", line), c.At)
		return
	case harmless[name] || launchers[name]:
		return
	case anywhere[name] && !readsOnly(words):
		r.write(st, unknownWord(how), nil, how, c.At)
		return
	case name == "sed" && !inPlace(words):
		return
	case name == "tee" && len(words) == 2 && c.Stdin != nil:
		r.write(st, words[1], c.Stdin, how, c.At)
		return
	}
	if c.Unread != "" && (name == "bash" || name == "sh" || strings.HasSuffix(name, ".sh")) {
		r.write(st, unknownWord(how), nil, how, c.At)
		return
	}
	python := strings.HasPrefix(name, "python")
	if python {
		r.pythonWrites(st, words[1:], c, how)
	}
	program := true // the first file that python is told of is the program
	for _, w := range words[1:] {
		text := w.Text
		option, value, ok := strings.Cut(text, "=")
		switch {
		case ok && (strings.HasPrefix(option, "-") || syntax.ValidName(option)): // dd's of=FILE, too
			text = value
		case strings.HasPrefix(text, "-"):
			continue
		}
		if python && program && strings.HasSuffix(text, ".py") {
			program = false
			continue
		}
		if w.Certainty < Sure {
			if w.Many || text == "" || w.Text == text {
				r.writeUnknown(st, name, w, how, c.At)
			}
			continue
		}
		if looksLikeFile(text) {
			r.write(st, sureWord(text), nil, how, c.At)
			switch path.Ext(text) {
			case ".R", ".ipynb", ".pl", ".rb", ".js", ".jl", ".lua", ".py":
				r.mentions(st, sureWord(text), c, how)
			}
		}
	}
}

// mentions notes that a program in a file may write what its text mentions.
func (r *reader) mentions(st *state, file Word, c *Command, how string) {
	if _, text, err := r.openFor(st, file, c.writes); err == nil && len(text) > 0 && len(r.script.Writes) < maxWrites {
		w := Write{Program: text, How: how, At: c.At}
		w.Runs, _, _ = st.runs()
		r.script.Writes = append(r.script.Writes, w)
	}
}

// pythonWrites notes what a Python program may write that its words do not tell: code on the command line or in a
// here-document anything, a file what its text mentions.
func (r *reader) pythonWrites(st *state, words []Word, c *Command, how string) {
	code := c.Stdin
	for i, w := range words {
		if w.Text == "-c" && i+1 < len(words) {
			code = &words[i+1]
		}
		if w.Text == "-m" || code != nil || strings.HasPrefix(w.Text, "-") {
			if w.Text == "-m" {
				return
			}
			continue
		}
		r.mentions(st, w, c, how)
		return
	}
	if code != nil && (code.Certainty < Sure || writesFiles.MatchString(code.Text)) {
		r.write(st, unknownWord(how), nil, how, c.At)
	}
}

// writesFiles finds what Python code writes files with.
var writesFiles = regexp.MustCompile(`open|write|dump|save|os\.|shutil|subprocess|[Pp]ath|exec|eval|import\(|import_module|to_`)

// writeUnknown notes a file of which the name is not known, for programs that surely write one.
func (r *reader) writeUnknown(st *state, program string, w Word, how string, at Span) {
	switch program {
	case "cp", "mv", "ln", "tee", "sed", "envsubst", "install", "rm", "dd", "truncate", "touch", "yq", "jq":
		r.write(st, w, nil, how, at)
	}
}

// looksLikeFile tells names of files from other words, numbers above all.
func looksLikeFile(s string) bool {
	return s != "" && len(s) < 4096 && strings.Trim(s, "0123456789.,:-+eE") != "" && !strings.ContainsAny(s, "\n\x00")
}

func inPlace(words []Word) bool {
	for _, w := range words[1:] {
		if strings.HasPrefix(w.Text, "--in-place") || strings.HasPrefix(w.Text, "-") &&
			!strings.HasPrefix(w.Text, "--") && strings.Contains(w.Text, "i") || w.Certainty < Sure {
			return true
		}
	}
	return false
}

// readsOnly knows the commands of git that change no file.
func readsOnly(words []Word) bool {
	if len(words) < 2 || path.Base(words[0].Text) != "git" {
		return false
	}
	for _, w := range words[1:] {
		switch w.Text {
		case "rev-parse", "log", "status", "describe", "diff", "show", "config", "branch", "remote", "fetch", "tag":
			return w.Certainty == Sure
		}
	}
	return false
}
