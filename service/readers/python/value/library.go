package value

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

var builtins = func() map[string]bool {
	out := map[string]bool{}
	for _, name := range strings.Fields("abs all any bool dict enumerate float getattr hasattr int isinstance len list max " +
		"min object open print range reversed round set setattr sorted str sum super tuple type vars zip " +
		"property staticmethod classmethod Exception ValueError RuntimeError ImportError KeyError globals") {
		out[name] = true
	}
	return out
}()

// library is what a call of something outside of the program gives, where that is known; the other calls are only kept.
func (f *follower) library(name string, a *arguments, made *Call) (Value, bool) {
	one, hasOne := a.get("", 0)
	switch name {
	case "int", "float", "str", "bool":
		if !hasOne {
			return known(map[string]any{"int": int64(0), "float": 0.0, "str": "", "bool": false}[name]), true
		}
		return convert(name, one), true
	case "pathlib.Path", "os.fspath", "os.path.abspath", "os.path.expanduser", "os.path.realpath", "os.path.normpath",
		"pathlib.PurePath":
		return f.join(a.values), hasOne
	case "os.path.join":
		return f.join(a.values), true
	case "os.path.dirname", "os.path.basename":
		if s, ok := one.Any.(string); ok && one.Unknown == "" {
			if name == "os.path.dirname" {
				return known(path.Dir(s)).resting(one), true
			}
			return known(path.Base(s)).resting(one), true
		}
	case "len":
		if t, ok := one.table(list, tuple, dict); ok && t.why() == "" {
			return known(int64(len(t.keys))).resting(one), true
		} else if s, ok := one.Any.(string); ok && one.Unknown == "" {
			return known(int64(len(s))).resting(one), true
		}
	case "abs", "max", "min", "sum", "round":
		return f.reckon(name, a)
	case "range":
		return numbers(a)
	case "list", "tuple", "set", "sorted":
		if !hasOne {
			return known(newTable(list)), true
		}
		if items, ok := f.items(one); ok && name != "sorted" {
			kind := list
			if name == "tuple" {
				kind = tuple
			}
			return sequence(kind, items), true
		}
	case "dict", "types.SimpleNamespace", "argparse.Namespace", "easydict.EasyDict", "box.Box", "addict.Dict",
		"omegaconf.DictConfig", "omegaconf.OmegaConf.create", "collections.OrderedDict", "ml_collections.ConfigDict":
		t := newTable(dict)
		if hasOne {
			f.merge(t, one)
		}
		if a.spread != nil {
			f.merge(t, *a.spread)
		}
		for _, key := range a.names {
			f.set(t, key, a.named[key])
		}
		return known(t), true
	case "vars", "dataclasses.asdict", "copy.copy", "copy.deepcopy", "omegaconf.OmegaConf.to_container",
		"omegaconf.OmegaConf.to_object", "dataclasses.replace":
		t, ok := one.table()
		if !ok || t.kind == object && t.made != nil && t.class == nil && name != "dataclasses.replace" {
			return Value{}, false
		}
		out := f.clone(t, 0)
		if name == "vars" || name == "dataclasses.asdict" {
			out.kind, out.class = dict, nil
		}
		for _, key := range a.names {
			if name == "dataclasses.replace" {
				out.put(key, a.named[key])
			}
		}
		return known(out), true
	case "zip", "enumerate":
		return f.zipped(name, a)
	case "type":
		return typeOf(one), hasOne && len(a.values) == 1
	case "getattr":
		key, _ := a.get("", 1)
		if s, ok := key.Any.(string); ok && key.Unknown == "" {
			v := f.attribute(one, s)
			if d, has := a.get("", 2); has && v.Unknown != "" {
				if t, isTable := one.table(); isTable && t.made == nil && t.why() == "" && t.at["\x00words"].Any == nil {
					return d, true
				}
			}
			return v, true
		}
	case "hasattr":
		key, _ := a.get("", 1)
		s, isText := key.Any.(string)
		if t, ok := one.table(); ok && isText && t.made == nil && t.why() == "" && t.at["\x00words"].Any == nil {
			_, has := t.get(s)
			_, inClass := t.class.find(s)
			return known(has || inClass).resting(one), true
		}
	case "setattr":
		key, _ := a.get("", 1)
		v, _ := a.get("", 2)
		if s, ok := key.Any.(string); ok && key.Unknown == "" {
			f.setAttribute(one, s, v)
		} else if t, ok := one.Any.(*Table); ok {
			f.lose(t, a.node.Line)
		}
		return known(nil), true
	case "isinstance":
		if yes, ok := isInstance(one, a); ok {
			return known(yes).resting(one), true
		}
	case "torch.cuda.is_available", "torch.cuda.is_bf16_supported", "transformers.utils.is_torch_bf16_gpu_available":
		return known(true), true
	case "os.getenv", "os.environ.get":
		if d, ok := a.get("default", 1); ok {
			return f.variable(one, &d), true
		}
		none := known(nil)
		return f.variable(one, &none), true
	case "open", "io.open", "codecs.open":
		return opened(one), true
	case "argparse.ArgumentParser", "transformers.HfArgumentParser", "trl.TrlParser", "jsonargparse.ArgumentParser",
		"configargparse.ArgumentParser", "configargparse.ArgParser":
		return declaration{f}.parser(name, a), true
	case "fire.Fire", "tyro.cli", "typer.run", "jsonargparse.CLI", "simple_parsing.parse", "draccus.parse", "chz.entrypoint":
		return declaration{f}.commandLine(one), hasOne
	case "omegaconf.OmegaConf.load":
		return f.load(one, "yaml"), true
	case "omegaconf.OmegaConf.structured":
		if c, ok := one.Any.(*class); ok {
			return f.instantiate(c, made, &arguments{}), true
		}
		return one, hasOne
	case "omegaconf.OmegaConf.from_cli":
		if f.world.Pairs == nil {
			return known(newTable(dict)), true
		}
		return loaded(f.world.Pairs), true
	case "omegaconf.OmegaConf.merge":
		out := newTable(dict)
		for _, v := range a.values {
			f.lay(out, v, 0)
		}
		return known(out), true
	}
	switch lastOf(name) {
	case "field", "Field":
		return f.field(a)
	case "Option", "Argument":
		if strings.HasPrefix(name, "typer.") && hasOne {
			return one, true
		}
	case "is_bfloat16_supported", "is_bf16_supported", "is_torch_bf16_gpu_available":
		return known(true), true
	case "safe_load", "load", "full_load", "loads", "unsafe_load":
		root, _, _ := strings.Cut(name, ".")
		switch root {
		case "yaml", "json", "toml", "tomllib", "tomli", "json5", "ruamel":
			return f.load(one, strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(root, "lib"), "5"), "i")), true
		}
	}
	return Value{}, false
}

// convert is int(x), float(x), str(x) and bool(x).
func convert(kind string, v Value) Value {
	lost := unknown(because(v), v)
	if v.Unknown != "" {
		lost.Origin = v.Origin
		return lost
	}
	switch kind {
	case "bool":
		on, ok := v.truth()
		if !ok {
			return lost
		}
		v.Any = on
	case "str":
		text, ok := textOf(v)
		if !ok {
			return lost
		}
		v.Any = text
	case "float":
		x, ok := v.Float()
		if b, isBool := v.Any.(bool); isBool {
			x, ok = float64(asInt(b)), true
		}
		if !ok {
			return lost
		}
		v.Any = x
	case "int":
		switch x := v.Any.(type) {
		case bool:
			v.Any = asInt(x)
		case float64:
			if x > 1<<53 || x < -1<<53 {
				return lost
			}
			v.Any = int64(x)
		case string:
			n, err := strconv.ParseInt(strings.ReplaceAll(strings.TrimSpace(x), "_", ""), 10, 64)
			if err != nil {
				return lost
			}
			v.Any = n
		case int64:
		default:
			return lost
		}
	}
	return v
}

func typeOf(v Value) Value {
	if v.Unknown != "" {
		return unknown(v.Unknown, v)
	}
	switch x := v.Any.(type) {
	case string:
		return known(outside("str"))
	case int64:
		return known(outside("int"))
	case float64:
		return known(outside("float"))
	case bool:
		return known(outside("bool"))
	case *Table:
		switch {
		case x.class != nil:
			return known(x.class)
		case x.kind == list:
			return known(outside("list"))
		case x.kind == dict:
			return known(outside("dict"))
		}
	}
	return unknown(notPlain, v)
}

func isInstance(v Value, a *arguments) (yes, ok bool) {
	of, _ := a.get("", 1)
	own, isOutside := typeOf(v).Any.(outside)
	if v.Any == nil && v.Unknown == "" {
		own, isOutside = "None", true
	}
	if !isOutside {
		return false, false
	}
	kinds := []Value{of}
	if t, isTable := of.table(tuple); isTable {
		kinds = t.items()
	}
	for _, k := range kinds {
		kind, is := k.Any.(outside)
		if !is || k.Unknown != "" {
			return false, false
		}
		if kind == own || own == "bool" && kind == "int" {
			return true, true
		}
	}
	return false, true
}

func (f *follower) join(values []Value) Value {
	out := known("")
	for _, v := range values {
		s, ok := v.Any.(string)
		if !ok || v.Unknown != "" || len(s) > maxString {
			return unknown(because(v), values...)
		}
		if path.IsAbs(s) {
			out.Any = s
		} else {
			out.Any = path.Join(out.Any.(string), s)
		}
		out = out.resting(v)
	}
	if len(values) == 1 && values[0].Any.(string) != "" && !strings.Contains(values[0].Any.(string), "./") {
		return values[0]
	}
	return out
}

func (f *follower) reckon(name string, a *arguments) (Value, bool) {
	values := a.values
	if len(values) == 1 && (name == "max" || name == "min" || name == "sum") {
		items, ok := f.items(values[0])
		if !ok {
			return Value{}, false
		}
		values = items
	}
	if len(values) == 0 || len(a.names) > 0 {
		return Value{}, false
	}
	out := values[0]
	for i, v := range values {
		x, float, ok := number(v.Any)
		y, _, _ := number(out.Any)
		if !ok || v.Unknown != "" {
			return unknown(because(v), values...), true
		}
		switch {
		case name == "abs" && x < 0:
			return f.unary("USub", v), true
		case name == "round":
			if len(values) > 1 || float {
				return Value{}, false
			}
		case name == "sum" && i > 0:
			out = f.operate("Add", out, v, a.node)
		case name == "max" && x > y, name == "min" && x < y:
			out = v.resting(out)
		default:
			out = out.resting(v)
		}
	}
	return out, true
}

func numbers(a *arguments) (Value, bool) {
	bounds := []int64{0, 0, 1}
	for i, v := range a.values {
		n, ok := v.Any.(int64)
		if !ok || v.Unknown != "" || i > 2 {
			return unknown(notPlain, a.values...), true
		}
		if len(a.values) == 1 {
			i = 1
		}
		bounds[i] = n
	}
	var out []Value
	for n := bounds[0]; bounds[2] > 0 && n < bounds[1]; n += bounds[2] {
		if out = append(out, known(n)); len(out) > maxTurns*4 {
			return unknown(notPlain, a.values...), true
		}
	}
	return sequence(list, out), bounds[2] > 0
}

func (f *follower) zipped(name string, a *arguments) (Value, bool) {
	var all [][]Value
	shortest := maxEntries
	for _, v := range a.values {
		items, ok := f.items(v)
		if !ok {
			return unknown(notPlain, v), true
		}
		all = append(all, items)
		shortest = min(shortest, len(items))
	}
	if len(all) == 0 {
		return Value{}, false
	}
	var rows []Value
	for i := range shortest {
		var row []Value
		if name == "enumerate" {
			row = append(row, known(int64(i)))
			all = all[:1]
		}
		for _, items := range all {
			row = append(row, items[i])
		}
		rows = append(rows, sequence(tuple, row))
	}
	return sequence(list, rows), true
}

func (f *follower) clone(t *Table, depth int) *Table {
	out := newTable(t.kind)
	out.class, out.made, out.name, out.vague = t.class, t.made, t.name, t.vague
	out.keys = slices.Clone(t.keys)
	for key, v := range t.at {
		if inner, ok := v.table(); ok && depth < 8 && f.afford() {
			v.Any = f.clone(inner, depth+1)
		}
		out.at[key] = v
	}
	return out
}

// lay lays a table over another one as OmegaConf.merge does: tables entry by entry.
func (f *follower) lay(t *Table, v Value, depth int) {
	other, ok := v.table(dict, object)
	if !ok || depth > 8 {
		f.set(t, open, unknown(because(v), v))
		return
	}
	for _, key := range other.keys {
		w := other.at[key]
		old, had := t.get(key)
		into, isTable := old.table(dict, object)
		if _, over := w.table(dict, object); had && isTable && over {
			f.lay(into, w, depth+1)
			continue
		}
		if inner, isInner := w.table(); isInner {
			w.Any = f.clone(inner, 0)
		}
		f.set(t, key, w)
	}
	if why := other.why(); why != "" {
		f.set(t, open, unknown(why))
	}
}

// launched are variables that launchers give to each process.
func launched(name string) bool {
	for _, begin := range []string{"WORLD_SIZE", "RANK", "LOCAL_", "GROUP_", "ROLE_", "NODE_RANK", "MASTER_", "SLURM_", "OMPI_",
		"PMI_", "CUDA_VISIBLE"} {
		if strings.HasPrefix(name, begin) {
			return true
		}
	}
	return false
}

// variable is one of the environment: what the program set, or what the script exports; else what the program takes in
// its place, unless the environment says otherwise.
func (f *follower) variable(name Value, otherwise *Value) Value {
	key, ok := name.Any.(string)
	if !ok || name.Unknown != "" {
		return unknown(because(name), name)
	}
	if v, set := f.environ.get(key); set {
		return v
	}
	if f.world.Env != nil {
		if v, given := f.world.Env(key); given {
			return Value{Value: v}
		}
	}
	v := unknown("the environment gives $" + key)
	if otherwise == nil || launched(key) {
		return v
	}
	v = *otherwise
	if v.Unknown == "" {
		v.Assumed = "$" + key + " of the environment may say otherwise"
	}
	return v
}

// opened is a file that is read later.
func opened(name Value) Value {
	t := newTable(object)
	t.name = "file"
	t.at["\x00file"] = name
	return known(t)
}

// load is what a file holds, by its name or opened.
func (f *follower) load(of Value, format string) Value {
	if t, ok := of.table(object); ok && t.at["\x00file"].Any != nil {
		of = t.at["\x00file"]
	}
	name, ok := of.Any.(string)
	if !ok || of.Unknown != "" {
		return unknown(because(of), of)
	}
	if f.world.Load != nil {
		if s, there := f.world.Load(name, format); there {
			return loaded(s).resting(of)
		}
	}
	return unknown(fmt.Sprintf("stands in %s, which is not there", short(name)), of)
}

func short(s string) string {
	if len(s) > 80 {
		return s[:80]
	}
	return s
}

// field is a field's default: field(default=…) or field(default_factory=lambda: …).
func (f *follower) field(a *arguments) (Value, bool) {
	if v, ok := a.get("default", 0); ok {
		return v, true
	}
	v, ok := a.named["default_factory"]
	if !ok {
		out := unknown("")
		out.Unknown = "has no default"
		return out, true
	}
	at := v.Origin
	switch x := v.Any.(type) {
	case *function:
		v = f.enter(x, &arguments{})
	case *class:
		v = f.instantiate(x, nil, &arguments{})
	case outside:
		v = f.invoke(a.node, v, nil, &arguments{node: a.node, named: map[string]Value{}})
	}
	v.Origin = at
	if at.At.Known() {
		v.Text = string(f.source[at.At.Start:at.At.End])
	}
	return v, true
}

// method is what a method of a known value gives, where that is known.
func (f *follower) method(of Value, name string, a *arguments) (Value, bool) {
	if of.Any == outside("os.environ") {
		return f.environment(name, a)
	}
	if of.Unknown != "" {
		return Value{}, false
	}
	one, hasOne := a.get("", 0)
	switch x := of.Any.(type) {
	case string:
		return f.text(x, of, name, a)
	case *Table:
		if x.at["\x00args"].Any != nil || x.at["\x00classes"].Any != nil {
			return declaration{f}.parsing(x, of, name, a)
		}
		if x.at["\x00file"].Any != nil {
			return of, name == "read"
		}
		if x.kind == object && x.class != nil || x.kind == object && x.made != nil {
			return Value{}, false
		}
		switch name {
		case "get", "pop", "setdefault":
			if x.kind == list {
				break
			}
			key, plain := keyOf(one)
			v, has := x.get(key)
			other, given := a.get("", 1)
			switch {
			case !plain || x.why() != "" && !has:
				v = unknown(because(one), one)
			case !has && given:
				v = other
			case !has:
				v = known(nil)
			}
			if plain && name == "pop" {
				f.remove(x, key)
			} else if plain && name == "setdefault" && !has {
				f.set(x, key, v)
			}
			return v, hasOne
		case "keys":
			items, ok := f.items(of)
			return sequence(list, items), ok && x.kind == dict
		case "values":
			return sequence(list, x.items()), x.kind == dict && x.why() == ""
		case "items":
			items, ok := f.items(of)
			for i, k := range items {
				items[i] = sequence(tuple, []Value{k, x.items()[i]})
			}
			return sequence(list, items), ok && x.kind == dict
		case "copy":
			return known(f.clone(x, 7)), true
		case "update", "merge_update":
			if hasOne {
				f.merge(x, one)
			}
			for _, key := range a.names {
				f.set(x, key, a.named[key])
			}
			if a.spread != nil {
				f.merge(x, *a.spread)
			}
			return known(nil), true
		case "append", "add":
			if x.kind == list && hasOne && x.why() == "" {
				f.set(x, strconv.Itoa(len(x.keys)), one)
				return known(nil), true
			}
		case "extend":
			if items, ok := f.items(one); ok && x.kind == list && x.why() == "" {
				for _, item := range items {
					f.set(x, strconv.Itoa(len(x.keys)), item)
				}
				return known(nil), true
			}
		case "index", "count", "isdisjoint":
			return unknown(notPlain), true
		}
		if v, own := x.get(name); own { // a function that a namespace holds
			return v, false
		}
		f.lose(x, a.node.Line)
		return unknown(notPlain), x.kind != object
	}
	return Value{}, false
}

func (f *follower) environment(name string, a *arguments) (Value, bool) {
	one, _ := a.get("key", 0)
	switch name {
	case "setdefault", "get", "pop":
		var d *Value
		if v, ok := a.get("default", 1); ok {
			d = &v
		} else if name == "get" {
			none := known(nil)
			d = &none
		}
		v := f.variable(one, d)
		if key, ok := keyOf(one); ok && name == "setdefault" {
			f.set(f.environ, key, v)
		}
		return v, true
	case "update":
		f.merge(f.environ, one)
		return known(nil), true
	}
	return unknown(notPlain), true
}

func (f *follower) text(s string, of Value, name string, a *arguments) (Value, bool) {
	give := func(x any) (Value, bool) { return known(x).resting(of), true }
	one, _ := a.get("", 0)
	word, isText := one.Any.(string)
	isText = isText && one.Unknown == ""
	switch name {
	case "lower":
		return give(strings.ToLower(s))
	case "upper":
		return give(strings.ToUpper(s))
	case "strip":
		if len(a.values) == 0 {
			return give(strings.TrimSpace(s))
		}
	case "startswith", "endswith":
		if isText && name == "startswith" {
			return give(strings.HasPrefix(s, word))
		} else if isText {
			return give(strings.HasSuffix(s, word))
		}
	case "replace":
		two, _ := a.get("", 1)
		if by, ok := two.Any.(string); ok && isText && two.Unknown == "" && len(s)*(1+len(by)) <= maxString {
			return give(strings.ReplaceAll(s, word, by))
		}
	case "split":
		var parts []string
		if isText && word != "" && len(a.values) == 1 {
			parts = strings.Split(s, word)
		} else if len(a.values) == 0 {
			parts = strings.Fields(s)
		} else {
			break
		}
		var out []Value
		for _, p := range parts {
			out = append(out, known(p).resting(of))
		}
		return sequence(list, out), len(out) <= maxEntries
	case "join":
		items, ok := f.items(one)
		size := 0
		var words []string
		for _, v := range items {
			w, isWord := v.Any.(string)
			ok = ok && isWord && v.Unknown == ""
			size += len(w) + len(s)
			words = append(words, w)
			of = of.resting(v)
		}
		if ok && size <= maxString {
			return give(strings.Join(words, s))
		}
	case "format":
		out := s
		for i, v := range a.values {
			w, ok := textOf(v)
			if !ok || len(out)+len(w) > maxString {
				return unknown(because(v), of, v), true
			}
			out = strings.Replace(strings.Replace(out, "{}", w, 1), "{"+strconv.Itoa(i)+"}", w, 1)
		}
		if !strings.ContainsAny(out, "{}") {
			return give(out)
		}
	case "read_text", "open":
		return opened(of), true
	case "resolve", "absolute", "expanduser", "as_posix":
		return of, true
	case "joinpath":
		return f.join(append([]Value{of}, a.values...)), true
	}
	return unknown(notPlain, of), true
}
