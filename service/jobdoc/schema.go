package jobdoc

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// shape is what a node of a document looks like when it is not in a shorter form.
type shape uint8

const (
	shapeObject     shape = iota // a Go struct: known fields only
	shapeList                    // a Go slice
	shapeDictionary              // map[string]string: any key
	shapeFree                    // json.RawMessage: an object of another tool, kept as it is
	shapeText
	shapeInteger
	shapeNumber
	shapeBoolean
)

// kinds is a set of JSON kinds, by the letters of [jsontext.Kind].
type kinds uint8

const (
	kindString kinds = 1 << iota
	kindNumber
	kindBool
	kindArray
)

// node says what may stand at one place of a document.
type node struct {
	shape   shape
	pointer bool // the Go field is a pointer: absent is not zero
	typ     reflect.Type

	fields []field
	byName map[string]int
	// required has a bit for each field that must be given.
	required uint64
	elem     *node

	// own are the JSON kinds that the type's UnmarshalJSON reads by itself: the
	// short forms of a union such as "adamw" for an optimizer.
	own kinds

	// What the validate tag allows. The validator does the checking after the
	// document is read; the reader needs the limits for the messages, to
	// refuse an explicit 0 where a zero Go value means "absent", and to stop
	// storing the items of an endless list.
	choices          []string
	interned         map[string]string
	minimum, maximum float64
	above, below     bool // minimum, or maximum, itself is not allowed
	maxLength        int
	length           int // a list of exactly as many items; 0 for any
}

// field is a known name in an object. embedded says that the Go struct is embedded.
type field struct {
	name  string
	index []int
	node  *node
}

// shorthander is implemented by types that also have a shorter JSON form.
type shorthander interface{ Shorthand() []string }

// maxFields is the size of the bit set of fields seen in an object.
const maxFields = 64

var schemas sync.Map // reflect.Type → *node

// schemaOf derives, once for a type, what documents of that type look like.
func schemaOf(t reflect.Type) *node {
	if n, ok := schemas.Load(t); ok {
		return n.(*node)
	}
	n, _ := schemas.LoadOrStore(t, derive(t, ""))
	return n.(*node)
}

func derive(t reflect.Type, tag string) *node {
	n := &node{typ: t, minimum: math.Inf(-1), maximum: math.Inf(1)}
	if t.Kind() == reflect.Pointer {
		n.pointer = true
		t = t.Elem()
		n.typ = t
	}
	own, items := splitDive(tag)
	n.limit(own)
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		n.shape = shapeFree
		return n
	case t.Kind() == reflect.Struct:
		n.shape = shapeObject
		n.byName = map[string]int{}
		n.addFields(t, nil)
	case t.Kind() == reflect.Slice:
		n.shape = shapeList
		n.elem = derive(t.Elem(), items)
	case t.Kind() == reflect.Map:
		n.shape = shapeDictionary
		n.elem = derive(t.Elem(), items)
	case t.Kind() == reflect.String:
		n.shape = shapeText
	case t.Kind() == reflect.Int64:
		n.shape = shapeInteger
	case t.Kind() == reflect.Float64:
		n.shape = shapeNumber
	case t.Kind() == reflect.Bool:
		n.shape = shapeBoolean
	default:
		panic("jobdoc: no document form for the Go type " + t.String())
	}
	if s, ok := reflect.Zero(t).Interface().(shorthander); ok {
		for _, kind := range s.Shorthand() {
			n.own |= map[string]kinds{"string": kindString, "number": kindNumber, "bool": kindBool,
				"array": kindArray}[kind]
		}
	} else if _, ok := reflect.New(t).Interface().(json.Unmarshaler); ok {
		// A scalar or list with its own reader and no declared short forms reads
		// every scalar itself.
		n.own = kindString | kindNumber | kindBool
	}
	return n
}

func (n *node) addFields(t reflect.Type, prefix []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(append([]int(nil), prefix...), i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			n.addFields(f.Type, index)
			continue
		}
		if !f.IsExported() || name == "" || name == "-" {
			continue
		}
		if len(n.fields) == maxFields {
			panic("jobdoc: too many fields in " + t.String())
		}
		n.byName[name] = len(n.fields)
		if strings.HasPrefix(f.Tag.Get("validate"), "required") {
			n.required |= 1 << len(n.fields)
		}
		n.fields = append(n.fields, field{name: name, index: index, node: derive(f.Type, f.Tag.Get("validate"))})
	}
}

// limit reads the parts of a validate tag that messages name.
func (n *node) limit(tag string) {
	for rule := range strings.SplitSeq(tag, ",") {
		name, value, _ := strings.Cut(rule, "=")
		switch name {
		case "gte", "gt":
			n.minimum, _ = strconv.ParseFloat(value, 64)
			n.above = name == "gt"
		case "lte", "lt":
			n.maximum, _ = strconv.ParseFloat(value, 64)
			n.below = name == "lt"
		case "max":
			n.maxLength, _ = strconv.Atoi(value)
		case "len":
			n.length, _ = strconv.Atoi(value)
		case "oneof":
			n.choices = strings.Fields(value)
			n.interned = make(map[string]string, len(n.choices))
			for _, c := range n.choices {
				n.interned[c] = c
			}
		case "", "omitempty", "required", "required_without", "required_without_all", "keys", "min":
			// What these ask for is asked of absent fields, keys and empty texts, of which allows says nothing.
		default: // A rule that is not known here would let through what it forbids.
			panic("jobdoc: the rule " + rule + " of a validate tag is not known")
		}
	}
}

// splitDive separates the rules for a list or dictionary from those for its items.
func splitDive(tag string) (own, items string) {
	own, items, found := strings.Cut(tag, "dive")
	if !found {
		return tag, ""
	}
	if _, after, ok := strings.Cut(items, "endkeys"); ok {
		items = after
	}
	return strings.Trim(own, ","), strings.Trim(items, ",")
}

// allows says whether a number certainly satisfies the node's rules.
func (n *node) allows(v float64) bool {
	return (v > n.minimum || v == n.minimum && !n.above) && (v < n.maximum || v == n.maximum && !n.below) &&
		len(n.choices) == 0
}

// allowsText says whether a string certainly satisfies the node's rules.
func (n *node) allowsText(s string) bool {
	if n.interned != nil {
		_, ok := n.interned[s]
		return ok
	}
	return n.maxLength > 0 && len(s) <= n.maxLength && len(s) > 0
}

// field is the node of a known field, or nil.
func (n *node) field(name string) *node {
	if i, ok := n.byName[name]; ok {
		return n.fields[i].node
	}
	return nil
}

// accepts says in words what may stand here.
func (n *node) accepts() string {
	var forms []string
	add := func(kind kinds, words string) {
		if n.own&kind != 0 {
			forms = append(forms, words)
		}
	}
	switch n.shape {
	case shapeText:
		if n.own == 0 {
			forms = append(forms, "a string"+oneOf(n.choices))
		}
	case shapeInteger:
		if len(n.choices) > 0 {
			forms = append(forms, strings.Join(n.choices, " or "))
		} else {
			forms = append(forms, "a whole number"+n.bounds())
		}
	case shapeNumber:
		forms = append(forms, "a number"+n.bounds())
	case shapeBoolean:
		forms = append(forms, "true or false")
	}
	add(kindBool, "true or false")
	add(kindNumber, "a number")
	add(kindString, "a string"+oneOf(n.shortChoices()))
	switch n.shape {
	case shapeObject:
		forms = append(forms, "an object with "+n.fieldNames())
	case shapeList:
		list := "a list"
		if n.length > 0 {
			list += " of " + strconv.Itoa(n.length)
		}
		forms = append(forms, list+", each item "+n.elem.accepts())
	case shapeDictionary:
		forms = append(forms, "an object of names and strings")
	case shapeFree:
		forms = append(forms, "an object")
	}
	return strings.Join(forms, ", or ")
}

// shortChoices are the values of a union's string form: those of its first field.
func (n *node) shortChoices() []string {
	if len(n.fields) > 0 {
		return n.fields[0].node.choices
	}
	return n.choices
}

func (n *node) fieldNames() string {
	names := make([]string, len(n.fields))
	for i, f := range n.fields {
		names[i] = f.name
	}
	return strings.Join(names, ", ")
}

func (n *node) bounds() string {
	low, high := !math.IsInf(n.minimum, 0), !math.IsInf(n.maximum, 0)
	from, upTo := " from ", " to "
	if n.above {
		from = " from above "
	}
	if n.below {
		upTo = " to below "
	}
	switch {
	case low && high:
		return from + plainNumber(n.minimum) + upTo + plainNumber(n.maximum)
	case low:
		return from + plainNumber(n.minimum)
	case high:
		return " up" + upTo + plainNumber(n.maximum)
	}
	return ""
}

func plainNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func oneOf(choices []string) string {
	if len(choices) == 0 {
		return ""
	}
	return " (" + strings.Join(choices, ", ") + ")"
}
