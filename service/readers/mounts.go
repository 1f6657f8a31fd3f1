package readers

import (
	"bytes"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vramplan/vramplan/service/readers/source"
)

// mounted are the files of ConfigMaps that a container has, by their names in it.
func (k *container) mounted() map[string]*yaml.Node {
	out := map[string]*yaml.Node{}
	for _, mount := range at(k.node, "volumeMounts").list() {
		for _, volume := range at(k.pod.spec, "volumes").list() {
			if at(volume, "name").scalar() != at(mount, "name").scalar() {
				continue
			}
			data := plain(k.configMaps[at(volume, "configMap", "name").scalar()])
			if data == nil || data.Kind != yaml.MappingNode {
				continue
			}
			dir, sub := at(mount, "mountPath").scalar(), at(mount, "subPath").scalar()
			for i := 0; i+1 < len(data.Content) && len(out) < source.MaxFiles; i += 2 {
				name, shown := data.Content[i].Value, true
				if items := at(volume, "configMap", "items").list(); len(items) > 0 {
					shown = false
					for _, item := range items {
						if at(item, "key").scalar() == name {
							name, shown = at(item, "path").scalar(), true
							break
						}
					}
				}
				switch n := plain(data.Content[i+1]); {
				case !shown || n.Kind != yaml.ScalarNode || !path.IsAbs(dir):
				case sub == "":
					out[path.Join(dir, name)] = n
				case sub == name:
					out[path.Clean(dir)] = n
				}
			}
		}
	}
	return out
}

// placed is the text of a scalar such that its lines, and if possible its bytes, stand where they do in the manifest.
// A block keeps its indentation then, which shells, JSON, TOML and YAML do not mind; here-documents and Python do.
func (m *manifest) placed(n *yaml.Node, value string, indented bool) []byte {
	line := n.Line
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		line++
	}
	start := m.lineStart(line)
	if n.Style&yaml.LiteralStyle != 0 && value == n.Value && indented && !strings.Contains(value, "<<") {
		end, same := start, true
		for _, l := range strings.SplitAfter(value, "\n") {
			if l == "" {
				break
			}
			next := len(m.text)
			if i := bytes.IndexByte(m.text[end:], '\n'); i >= 0 {
				next = end + i + 1
			}
			raw := string(m.text[end:next])
			same = same && strings.TrimSpace(strings.TrimSuffix(strings.TrimRight(raw, "\r\n"),
				strings.TrimRight(l, "\r\n"))) == ""
			end = next
		}
		if same {
			out := bytes.Clone(m.text[:end])
			for i, b := range out[:start] {
				if b != '\n' {
					out[i] = ' '
				}
			}
			return out
		}
	}
	return append(bytes.Repeat([]byte("\n"), line-1), value...)
}
