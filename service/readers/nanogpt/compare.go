package nanogpt

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
)

// The files of nanoGPT by which it is known.
const trainName, modelName = "nanoGPT train.py", "nanoGPT model.py"

// ProgramsOf takes two texts for nanoGPT's train.py and model.py.
func ProgramsOf(train, model []byte) source.Programs {
	return source.Programs{trainName: map[string]bool{trainFingerprint(train): true},
		modelName: map[string]bool{modelFingerprint(model): true}}
}

// released are the programs whose code is known. nanoGPT's are all states of train.py and model.py in karpathy/nanoGPT
// from 5 February 2023 (fused AdamW, scaled_dot_product_attention, a vocabulary of 50,304) to 9 December 2024
// (dc81cb3), each the [fingerprint] of the file at that commit. A newer state of upstream is strange as long as it is
// not listed here.
var released = source.Programs{
	trainName: setting.SetOf(strings.Fields("1d1d8bc518b23a8d57c7 33a0e4254465d9189ff6 408fe7483efe9ee4562d " +
		"65ea02a31309c9290a0f 67826aa90a5f2705aee4 81da972ef795b6ba2624 94986ee30164098d0ef9 a8bf5207313640dd0af4 " +
		"a93bb1f4b9db2ca92d2e c2978cb3f1b97cb49c02 d7bef37892701adf7937 e32b98fcf8edab30ca7b f4d0b0c907313bfa566b " +
		"f66a3d69aef28f684619")...),
	modelName: setting.SetOf(strings.Fields("01c86082ef1732f272a7 0a1d8863f6c4f6aefa99 12b158e004fcbd438a9a " +
		"217998920ebbc50bc9f6 39fa6c5e3513896c1fb6 5fa71064231f4a175108 6aa4875fa4dd15b3b57e 87a27636caea8ca1c66d " +
		"95402c7ad58bd050f567 c09b779c51caeeadd5c7 d58410494fb517523048 e50ab10e6d488edf5acb")...),
}

// isNanoGPT compares a program that is started, and is false where none is.
func (r *job) isNanoGPT() bool {
	if r.Program.Text == "" {
		return false
	}
	r.compareNanoGPT()
	r.Out.Exact = true // get_batch cuts blocks of block_size tokens out of one text
	return true
}

// compareNanoGPT holds train.py and model.py against those of the releases: a fork may train anything under the same
// keys. A file of assignments is a program, too, and may hold more than them.
func (r *job) compareNanoGPT() {
	programs := r.Files.Source.Programs
	if programs == nil {
		programs = released
	}
	for _, name := range r.assigned {
		if text, err := r.Files.Read(name); err == nil {
			r.onlyAssigns(r.Files.Shown(name), text)
		}
	}
	at := func(file string) setting.Span { return setting.Span{File: file} }
	_, train, trainErr := r.OpenProgram(r.Program.Text)
	model := path.Join(path.Dir(r.Program.Text), "model.py")
	_, text, err := r.Open(model)
	switch {
	case train == nil:
		r.StrangeAt(r.Program.Origin.At, r.Program.Text, "is not there to be compared with nanoGPT's")
	case r.Code == nil || trainErr != nil:
		r.StrangeAt(r.Program.Origin.At, r.Program.Text, "cannot be compared with nanoGPT's")
	case !programs[trainName][r.fingerprint(trainName, r.Code.Source)]:
		r.StrangeAt(at(r.Code.File), "train.py", "is not one of nanoGPT's own")
	case text == nil:
		r.StrangeAt(at(model), "model.py", "is not there to be compared with nanoGPT's")
	case err != nil:
		r.StrangeAt(at(model), "model.py", "cannot be compared with nanoGPT's: "+err.Error())
	case !programs[modelName][r.fingerprint(modelName, text)]:
		r.StrangeAt(at(model), "model.py", "is not one of nanoGPT's own")
	}
}

// fingerprint is that of a file of nanoGPT's, which is taken once for all commands.
func (r *job) fingerprint(name string, text []byte) string {
	type key struct {
		name string
		text source.Text
	}
	return source.Once(r.Files, key{name, source.TextOf(text)}, func() string {
		if name == trainName {
			return trainFingerprint(text)
		}
		return modelFingerprint(text)
	})
}

// settingLine is a line of a configuration that only sets a name.
var settingLine = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)[ \t]*(?::[ \t]*[A-Za-z_.]+[ \t]*)?=[ \t]*([^=].*)$`)

// onlyAssigns notes what in a file of assignments is more than that: the configurator runs it as a program.
func (r *job) onlyAssigns(name string, text []byte) {
	for i, raw := range strings.Split(string(text), "\n") {
		code := strings.TrimRight(withoutComment(raw), " \t\r")
		if strings.TrimSpace(code) == "" || settingLine.MatchString(code) || strings.HasPrefix(code, "import time") ||
			strings.HasPrefix(code, "print(") || strings.HasPrefix(code, `"""`) {
			continue
		}
		r.StrangeAt(setting.Span{File: name, Line: i + 1}, strings.TrimSpace(raw), "is not followed")
	}
}

// fingerprint identifies what a Python program does: comments, blank lines and the values that a reader takes from
// the file itself do not count. skip says which lines are read as such values.
func fingerprint(text []byte, skip func(line string) bool) string {
	h := sha256.New()
	doc := ""
	for _, raw := range strings.Split(string(text), "\n") {
		line := strings.TrimRight(withoutComment(strings.TrimRight(raw, "\r")), " \t")
		if doc != "" {
			if strings.Contains(line, doc) {
				doc = ""
			}
			continue
		}
		trimmed := strings.TrimSpace(line)
		if quotes := trimmed[:min(3, len(trimmed))]; quotes == `"""` || quotes == "'''" {
			if !strings.Contains(trimmed[3:], quotes) {
				doc = quotes
			}
			continue
		}
		if trimmed == "" || skip != nil && skip(line) {
			continue
		}
		h.Write([]byte(line))
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil)[:10])
}

// withoutComment takes a comment off the end of a line.
func withoutComment(line string) string {
	var quote byte
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#':
			return line[:i]
		}
	}
	return line
}

// trainFingerprint is that of nanoGPT's train.py. What it assigns to its own keys in front of the configurator is
// read, and may differ.
func trainFingerprint(text []byte) string {
	settings := true
	return fingerprint(text, func(line string) bool {
		settings = settings && !strings.HasPrefix(line, "config_keys")
		m := settingLine.FindStringSubmatch(line)
		if !settings || m == nil || !keys[m[1]] {
			return false
		}
		p, err := decode.Python(trainName, []byte(line), "")
		if err != nil {
			return false
		}
		v, ok := p.Values.Peek(m[1])
		// A type that is chosen by what the card can do is a part of the program.
		return ok && v.Unknown == "" && !strings.Contains(m[2], " if ")
	})
}

func modelFingerprint(text []byte) string { return fingerprint(text, nil) }
