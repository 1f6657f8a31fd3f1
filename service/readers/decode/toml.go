package decode

import (
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// TOML decodes a TOML file; the keys of tables come before those in them: training.seq_len.
func TOML(file string, b []byte) (*setting.Settings, error) {
	t, err := newText(file, b)
	if err != nil {
		return nil, err
	}
	if deepJSON(b) {
		return nil, &Error{File: file, Say: "is nested too deeply"}
	}
	w := tomlWalk{text: t, into: setting.New(), elements: map[string]int{}}
	w.parser.Reset(b)
	table := ""
	for w.parser.NextExpression() {
		e := w.parser.Expression()
		switch e.Kind {
		case unstable.Table:
			table = w.key(e)
			w.into.Set(table, t.value(map[string]any{}, "", setting.Span{}))
		case unstable.ArrayTable:
			name := w.key(e)
			table = join(name, strconv.Itoa(w.elements[name]))
			w.elements[name]++
		case unstable.KeyValue:
			w.value(join(table, w.key(e)), e.Value())
		}
		if w.nodes > maxNodes {
			return nil, &Error{File: file, Say: "has too many values"}
		}
	}
	if err := w.parser.Error(); err != nil {
		return nil, &Error{File: file, Say: "is not TOML: " + strings.TrimPrefix(err.Error(), "toml: ")}
	}
	return w.into, nil
}

type tomlWalk struct {
	parser   unstable.Parser
	text     *text
	into     *setting.Settings
	elements map[string]int
	nodes    int
}

func (w *tomlWalk) key(e *unstable.Node) string {
	var parts []string
	for it := e.Key(); it.Next(); {
		parts = append(parts, string(it.Node().Data))
	}
	return strings.Join(parts, ".")
}

func (w *tomlWalk) value(key string, n *unstable.Node) any {
	w.nodes++
	var plain any
	written := string(n.Data)
	switch n.Kind {
	case unstable.String:
		plain = written
	case unstable.Bool:
		plain = written == "true"
	case unstable.Integer:
		if i, err := strconv.ParseInt(strings.ReplaceAll(written, "_", ""), 0, 64); err == nil {
			plain = i
		} else {
			plain = written
		}
	case unstable.Float:
		if f, err := strconv.ParseFloat(strings.ReplaceAll(written, "_", ""), 64); err == nil {
			plain = f
		} else {
			plain = written
		}
	case unstable.Array:
		list := []any{}
		for it := n.Children(); it.Next(); {
			list = append(list, w.value(join(key, strconv.Itoa(len(list))), it.Node()))
		}
		plain = list
	case unstable.InlineTable:
		object := map[string]any{}
		for it := n.Children(); it.Next(); {
			if kv := it.Node(); kv.Kind == unstable.KeyValue {
				name := w.key(kv)
				object[name] = w.value(join(key, name), kv.Value())
			}
		}
		plain = object
	default:
		plain = written
	}
	w.into.Set(key, w.text.value(plain, written, w.at(n)))
	return plain
}

// at is where a value stands. Strings know their place by their raw text, numbers by their data, which is a part of the
// input; tables and lists have none.
func (w *tomlWalk) at(n *unstable.Node) setting.Span {
	switch n.Kind {
	case unstable.String, unstable.Bool, unstable.Integer, unstable.Float:
		if n.Raw.Length > 0 {
			return w.text.span(int(n.Raw.Offset), int(n.Raw.Offset+n.Raw.Length))
		}
		if len(n.Data) > 0 {
			r := w.parser.Range(n.Data)
			return w.text.span(int(r.Offset), int(r.Offset+r.Length))
		}
	}
	return setting.Span{}
}
