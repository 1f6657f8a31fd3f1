package recording

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// towers writes a recording whose modules stand in it one after the other, as lines and as blocks. Each module has as
// many linear layers as are asked for, reads what the one before it made and a mask, and has parameters of its own.
func towers(modules, linears int, inBlocks bool) string {
	var parameters, before, block []string
	line := func(list *[]string, format string, args ...any) { *list = append(*list, fmt.Sprintf(format, args...)) }
	for m := range modules {
		for l := range linears {
			line(&parameters, "tower.%d.up%d.weight 8x8 parameter", m, l)
		}
	}
	number := func(base, n int) string {
		if inBlocks {
			return fmt.Sprintf("~%d", n)
		}
		return fmt.Sprint(base + n)
	}
	for m := range modules {
		// Value 0 is the batch, 1 the mask; each linear layer makes a value and a node.
		list, value, node, parameter, name := &before, 2+m*linears, m*linears, m*linears, fmt.Sprintf("tower.%d", m)
		if inBlocks {
			list, block, name = &block, nil, "~"
		}
		for l := range linears {
			given, edge := number(value, l-1), number(node, l-1)+".0"
			if m+l == 0 && !inBlocks {
				given, edge = "0", "-"
			}
			weight := "p" + number(parameter, l)
			line(list, "[ %s.up%d l %s %s 8BT f32 %s 0", name, l, given, edge, weight)
			line(list, "A %s 8BT f32 mm", number(value, l))
			line(list, "W 0")
			line(list, "N %s 1 %s,%s %s,1", number(node, l), edge, weight, given)
			line(list, "a 0 64 f32 mm")
			line(list, "s 0 1")
			line(list, "] %s %s.0", number(value, l), number(node, l))
		}
		if inBlocks && m == 0 { // which gets the batch, and so stands there as it is
			before = append(before, strings.Split(firstTower(linears), "\n")...)
		} else if inBlocks {
			line(&before, "* 0 %d tower.%d", parameter, m)
		}
	}
	if inBlocks {
		block = append([]string{`"blocks":[["`}, strings.Join(block, `","`), `"]],`)
	}
	last := modules*linears - 1
	return fmt.Sprintf(`{"vramplan_recording":1,"name":"towers","versions":{},"batch":["8BT f32"],"parameters":["%s"],`+
		`"programs":{"fp32":{%s"before":["A 1 1TT f32 mask","%s"],"outputs":[],"loss":"%d %d.0"}}}`,
		strings.Join(parameters, `","`), strings.Join(block, ""), strings.Join(before, `","`), 2+last, last)
}

// firstTower is the first module as it is written by itself.
func firstTower(linears int) string {
	_, rest, _ := strings.Cut(towers(1, linears, false), `"before":["A 1 1TT f32 mask","`)
	lines, _, _ := strings.Cut(rest, `"],"outputs"`)
	return strings.ReplaceAll(lines, `","`, "\n")
}

// TestBlocksAreTheirLines: a recording with blocks reads as the one with all of its lines.
func TestBlocksAreTheirLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		modules, linears := rapid.IntRange(1, 40).Draw(t, "modules"), rapid.IntRange(1, 9).Draw(t, "linears")
		short, whole := towers(modules, linears, true), towers(modules, linears, false)
		one, err := Read([]byte(short))
		if err != nil {
			t.Fatalf("%v in\n%s", err, short)
		}
		other, err := Read([]byte(whole))
		if err != nil {
			t.Fatalf("%v in\n%s", err, whole)
		}
		one.unfolded, other.unfolded = 0, 0
		if !reflect.DeepEqual(one, other) {
			t.Fatalf("%s\nis not\n%s", short, whole)
		}
	})
}

// TestBlocksWithValues: a block that all programs share, with a size and a type of each use's own.
func TestBlocksWithValues(t *testing.T) {
	document := func(blocks, fp32, half string) string {
		return `{"vramplan_recording":1,"name":"m","versions":{},"batch":["8BT f32"],"parameters":["m.weight 8x8 parameter"],` +
			blocks + `"programs":{"fp32":{"before":[` + fp32 + `],"outputs":[],"loss":"2 0.0"},` +
			`"half":{"before":[` + half + `],"outputs":[],"loss":"2 0.0"}}}`
	}
	short := document(`"blocks":[["A ~0 $0 $1 mul","A ~1 $0 $1 add","F $2","N ~0 1 p0 -","a 0 64 $1 mm","s 0 0"]],`,
		`"* 0 0 m 8BT,f32,1"`, `"* 0 0 m 4B,bf16,1"`)
	whole := document("", `"A 1 8BT f32 mul","A 2 8BT f32 add","F 1","N 0 1 p0 -","a 0 64 f32 mm","s 0 0"`, `"A 1 4B bf16 mul","A 2 4B bf16 add","F 1","N 0 1 p0 -","a 0 64 bf16 mm","s 0 0"`)
	one, err := Read([]byte(short))
	if err != nil {
		t.Fatal(err)
	}
	other, err := Read([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	one.unfolded, other.unfolded = 0, 0
	if !reflect.DeepEqual(one, other) {
		t.Errorf("%s\nis not\n%s", short, whole)
	}
	for name, c := range map[string]struct{ old, by, want string }{
		"too few values":  {"8BT,f32,1", "8BT,f32", "and 2 are given"},
		"no values":       {" 8BT,f32,1", "", `"$0" is no size`},
		"no number":       {"F $2", "F $", `the block has "$"`},
		"many values":     {"8BT,f32,1", "8BT,f32,1" + strings.Repeat(",", maxOwn), "more than 1000"},
		"a long line":     {"8BT,f32,1", "8BT,f32," + strings.Repeat("1", maxLine), "longer than"},
		"another block":   {"* 0 0 m 8", "* 1 0 m 8", "is no whole number from 0 to 0"},
		"too many fields": {"8BT,f32,1", "8BT,f32,1 7", "fields"},
	} {
		text := strings.Replace(short, c.old, c.by, 1)
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestWrongBlocks changes one thing of blocks and holds the error against it.
func TestWrongBlocks(t *testing.T) {
	whole := towers(3, 2, true)
	for name, c := range map[string]struct{ old, by, want string }{
		"unknown block":  {`"* 0 2 tower.1"`, `"* 1 2 tower.1"`, `"1" is no whole number from 0 to 0`},
		"fields":         {`"* 0 2 tower.1"`, `"* 0 2"`, "has 2 fields, not 3"},
		"parameter":      {`"* 0 2 tower.1"`, `"* 0 9 tower.1"`, `there is no parameter`},
		"in no block":    {`"A 1 1TT`, `"A ~1 1TT`, `"~1" is no number of a block`},
		"below zero":     {`~-1.0`, `~-9.0`, `"~-9" is no number of a block`},
		"a use in a use": {`"W 0"`, `"* 0 2 tower.1"`, "is no instruction"},
		"no name":        {`"* 0 2 tower.1"`, `"* 0 2 "`, "the name"},
	} {
		at := 0
		if name == "a use in a use" || name == "below zero" {
			at = strings.Index(whole, `"blocks"`)
		}
		text := whole[:at] + strings.Replace(whole[at:], c.old, c.by, 1)
		if text == whole {
			t.Errorf("%s: nothing was changed", name)
			continue
		}
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestBlocksAreBounded: few lines cannot stand for any number.
func TestBlocksAreBounded(t *testing.T) {
	one := `"* 0 2 tower.1"`
	text := strings.Replace(towers(3, 9, true), `"* 0 9 tower.1"`, strings.Repeat(one+",", 2000)+one, 1)
	if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), "stand for too many lines") {
		t.Errorf("%v", err)
	}
}
