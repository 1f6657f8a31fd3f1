package decode

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// JSON decodes a JSON object; comments and trailing commas are allowed, as DeepSpeed's users write them.
func JSON(file string, b []byte) (*setting.Settings, error) {
	t, err := newText(file, b)
	if err != nil {
		return nil, err
	}
	if deepJSON(b) {
		return nil, &Error{File: file, Say: "is nested too deeply"}
	}
	v, err := hujson.Parse(b)
	if err != nil {
		e := &Error{File: file, Say: "is not JSON: " + strings.TrimPrefix(err.Error(), "hujson: ")}
		return nil, e
	}
	w := jsonWalk{text: t, into: setting.New()}
	w.value("", &v, 0)
	if w.nodes > maxNodes {
		return nil, &Error{File: file, Say: "has too many values"}
	}
	return w.into, nil
}

// deepJSON finds what nests more than anybody writes, before a parser that calls itself for every level does.
func deepJSON(b []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

type jsonWalk struct {
	text  *text
	into  *setting.Settings
	nodes int
}

func (w *jsonWalk) value(key string, v *hujson.Value, depth int) any {
	if w.nodes++; w.nodes > maxNodes {
		return nil
	}
	var plain any
	written := ""
	switch x := v.Value.(type) {
	case *hujson.Object:
		object := map[string]any{}
		for i := range x.Members {
			name, ok := x.Members[i].Name.Value.(hujson.Literal)
			if !ok {
				continue
			}
			object[name.String()] = w.value(join(key, name.String()), &x.Members[i].Value, depth+1)
		}
		plain = object
	case *hujson.Array:
		list := make([]any, 0, len(x.Elements))
		for i := range x.Elements {
			list = append(list, w.value(join(key, strconv.Itoa(i)), &x.Elements[i], depth+1))
		}
		plain = list
	case hujson.Literal:
		plain, written = literal(x)
	}
	if key != "" {
		w.into.Set(key, w.text.value(plain, written, w.text.span(v.StartOffset, v.EndOffset)))
	}
	return plain
}

// literal is a string, number, truth value or null; whole numbers, 1e9 too, are int64.
func literal(l hujson.Literal) (plain any, written string) {
	var x any
	d := json.NewDecoder(strings.NewReader(string(l)))
	d.UseNumber()
	if d.Decode(&x) != nil {
		return string(l), string(l)
	}
	switch x := x.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n, string(l)
		}
		f, err := x.Float64()
		if err != nil {
			return string(l), string(l)
		}
		return f, string(l)
	case string:
		return x, x
	}
	return x, string(l)
}
