package decode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// maxDocuments is the most documents that are read of one YAML file.
const maxDocuments = 64

var yamlLine = regexp.MustCompile(`line (\d+)`)

// YAML decodes all documents of a YAML file. Scalars are typed as PyYAML does ([setting.Scalar]), of two equal keys the
// last wins as there, and merge keys (<<) are followed.
func YAML(file string, b []byte) ([]*setting.Settings, error) {
	t, err := newText(file, b)
	if err != nil {
		return nil, err
	}
	var out []*setting.Settings
	decoder := yaml.NewDecoder(bytes.NewReader(b))
	for len(out) < maxDocuments {
		var node yaml.Node
		if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, yamlError(t, err)
		}
		w := yamlWalk{text: t, into: setting.New()}
		if len(node.Content) == 1 && node.Content[0].Kind == yaml.MappingNode {
			w.value("", node.Content[0], 0)
		}
		if w.err != nil {
			return nil, w.err
		}
		out = append(out, w.into)
	}
	return out, nil
}

// template finds what a template of Go's, as Helm's are, or of Jinja has on a line of its own or in a value.
var template = regexp.MustCompile(`\{\{-?\s*(\.|if|end|range|with|include|toYaml|define|\w+\s*\}\})`)

// yamlError is the library's, with the line and the usual cause where that can be seen.
func yamlError(t *text, err error) error {
	if bytes.Contains(t.bytes, []byte("{{")) && template.Match(t.bytes) {
		return &Error{File: t.file, Say: "is a template and no YAML yet: render it first (helm template, kustomize or what " +
			"fills its {{ }}), and hand over what comes out"}
	}
	e := &Error{File: t.file, Say: "is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Say = "is not YAML: " +
			strings.TrimPrefix(yamlLine.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), ""), ": ")
		for n := max(1, e.Line-1); n <= e.Line+1; n++ {
			line := strings.TrimSpace(string(t.bytes[t.start(n):t.start(n+1)]))
			if missingSpace.MatchString(line) {
				e.Line, e.Say = n, fmt.Sprintf("is not YAML: a space is missing after %s",
					line[:strings.IndexByte(line, ':')+1])
				break
			}
		}
	}
	return e
}

// missingSpace is a line such as report_to:wandb.
var missingSpace = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*:[^\s/:]\S*$`)

// yamlWalk flattens nodes into settings.
type yamlWalk struct {
	text  *text
	into  *setting.Settings
	nodes int
	err   error
}

// value sets a node under a key, and what is below it under longer keys; it returns it as a plain value.
func (w *yamlWalk) value(key string, n *yaml.Node, depth int) any {
	if w.nodes++; w.beyond(n, depth) {
		return nil
	}
	for hops := 0; n.Kind == yaml.AliasNode && n.Alias != nil; hops++ {
		if n = n.Alias; hops > maxDepth {
			w.fail(n, "has aliases that lead in a circle")
			return nil
		}
	}
	var plain any
	switch n.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		w.mapping(key, n, depth, object)
		plain = object
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for i, c := range n.Content {
			list = append(list, w.value(join(key, strconv.Itoa(i)), c, depth+1))
			if w.err != nil {
				return nil
			}
		}
		plain = list
	default:
		// The library knows fewer truth values than PyYAML, and calls "on" a string: what is plain is typed here.
		const notPlain = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
		if plain = any(n.Value); n.Style&notPlain == 0 && (n.Style&yaml.TaggedStyle == 0 || n.Tag != "!!str") {
			plain = setting.Scalar(n.Value)
		}
	}
	if key != "" {
		w.into.Set(key, w.text.value(plain, n.Value, w.at(n)))
	}
	return plain
}

// beyond fails where there is more, or it nests further, than anybody writes.
func (w *yamlWalk) beyond(n *yaml.Node, depth int) bool {
	switch {
	case depth > maxDepth:
		w.fail(n, "is nested too deeply")
	case w.nodes > maxNodes:
		w.fail(n, "has too many values")
	default:
		return false
	}
	return true
}

func (w *yamlWalk) mapping(key string, n *yaml.Node, depth int, object map[string]any) {
	isMerge := func(k *yaml.Node) bool { return k.Value == "<<" && k.Tag == "!!merge" }
	for i := 0; i+1 < len(n.Content) && w.err == nil; i += 2 {
		if isMerge(n.Content[i]) {
			w.merge(key, n.Content[i+1], depth+1, object)
		}
	}
	for i := 0; i+1 < len(n.Content) && w.err == nil; i += 2 {
		if k := n.Content[i]; !isMerge(k) {
			object[k.Value] = w.value(join(key, k.Value), n.Content[i+1], depth+1)
		}
	}
}

// merge follows <<: *base; what the mapping says itself wins.
func (w *yamlWalk) merge(key string, v *yaml.Node, depth int, object map[string]any) {
	if w.nodes++; w.beyond(v, depth) {
		return
	}
	for hops := 0; v.Kind == yaml.AliasNode && v.Alias != nil && hops < maxDepth; hops++ {
		v = v.Alias
	}
	switch v.Kind {
	case yaml.MappingNode:
		w.mapping(key, v, depth, object)
	case yaml.SequenceNode:
		for i := len(v.Content) - 1; i >= 0; i-- {
			w.merge(key, v.Content[i], depth+1, object)
		}
	}
}

func (w *yamlWalk) fail(n *yaml.Node, say string) {
	if w.err == nil {
		w.err = &Error{File: w.text.file, Line: n.Line, Say: say}
	}
}

// at is where a scalar stands. The library gives line and column, in characters; the value's length is that of what was
// written only for scalars on one line, and others have an empty span at their beginning.
func (w *yamlWalk) at(n *yaml.Node) setting.Span {
	if n.Line == 0 {
		return setting.Span{}
	}
	at := w.text.start(n.Line)
	for c := 1; c < n.Column && at < len(w.text.bytes); c++ {
		_, size := utf8.DecodeRune(w.text.bytes[at:])
		at += size
	}
	end := at
	if n.Kind == yaml.ScalarNode {
		switch n.Style &^ yaml.TaggedStyle {
		case yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle:
			if written := at + len(n.Value) + 2; written <= len(w.text.bytes) &&
				string(w.text.bytes[at+1:written-1]) == n.Value {
				return w.text.span(at, written)
			}
		case 0:
			if written := at + len(n.Value); written <= len(w.text.bytes) &&
				string(w.text.bytes[at:written]) == n.Value {
				end = written
			}
		}
	}
	return setting.Span{File: w.text.file, Start: at, End: end, Line: n.Line}
}

func join(key, more string) string {
	if key == "" {
		return more
	}
	return key + "." + more
}
