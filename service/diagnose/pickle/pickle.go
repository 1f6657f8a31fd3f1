package pickle

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Limits bound what is made of a file.
type Limits struct {
	// Bytes is how much of the file is read, Memory about how much its objects may take.
	Bytes, Memory int64
}

// List is a list or a tuple.
type List struct{ Items []any }

// Dict is a dictionary; of keys that are there twice the last counts, as in Python.
type Dict struct{ keys, values []any }

// Get is the value of a key that is text, nil where it is not there.
func (d *Dict) Get(key string) any {
	if d == nil {
		return nil
	}
	for i := len(d.keys) - 1; i >= 0; i-- {
		if d.keys[i] == key {
			return d.values[i]
		}
	}
	return nil
}

// Len is how many pairs were put into it.
func (d *Dict) Len() int { return len(d.keys) }

// Errors of a file that is not read.
var (
	// ErrTooLarge is a file that takes more than its limits.
	ErrTooLarge = errors.New("the pickle is larger than what is read")
	errBroken   = errors.New("the pickle is broken")
)

const (
	// maxStack is how many objects may wait for what they are put into. Pickler puts at most 1000 at a time into a
	// list or dictionary (_BATCHSIZE), so that this is hundreds of levels.
	maxStack = 1 << 16
	// maxMarks is how deep what is being filled may be nested.
	maxMarks = 1 << 10
	// What objects take, about: an interface and the allocation behind it.
	wordBytes, itemBytes, objectBytes = 16, 16, 48
)

// Decode reads one object: nil, bool, int64, uint64 where an int64 is too small, float64, string, *List or *Dict.
func Decode(r io.Reader, limits Limits) (any, error) {
	d := &decoder{in: bufio.NewReaderSize(r, 64<<10), left: limits.Bytes, memory: limits.Memory}
	v, err := d.run()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: it ends at byte %d", errBroken, d.at)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

type decoder struct {
	in     *bufio.Reader
	at     int64 // the next byte's place
	left   int64
	memory int64
	stack  []any
	marks  []int
	memo   []any
}

// read fills into with what follows.
func (d *decoder) read(into []byte) error {
	if int64(len(into)) > d.left {
		return ErrTooLarge
	}
	n, err := io.ReadFull(d.in, into)
	d.at += int64(n)
	d.left -= int64(n)
	return err
}

// number is n bytes, little-endian.
func (d *decoder) number(n int) (uint64, error) {
	var v uint64
	if int64(n) > d.left {
		return 0, ErrTooLarge
	}
	for i := range n {
		b, err := d.in.ReadByte()
		if err != nil {
			return 0, err
		}
		d.at++
		d.left--
		v |= uint64(b) << (8 * i)
	}
	return v, nil
}

// spend counts memory.
func (d *decoder) spend(n int64) error {
	if n > d.memory {
		return ErrTooLarge
	}
	d.memory -= n
	return nil
}

// text is n bytes of text. It grows as the file does: a length alone allocates nothing.
func (d *decoder) text(n uint64) (string, error) {
	if n > uint64(d.left) {
		return "", fmt.Errorf("%w: a text of %d bytes is announced at byte %d", ErrTooLarge, n, d.at)
	}
	if err := d.spend(int64(n) + objectBytes); err != nil {
		return "", err
	}
	var whole []byte
	for left := int(n); left > 0; {
		part := min(left, 64<<10)
		whole = append(whole, make([]byte, part)...)
		if err := d.read(whole[len(whole)-part:]); err != nil {
			return "", err
		}
		left -= part
	}
	return string(whole), nil
}

func (d *decoder) push(v any) error {
	if len(d.stack) == maxStack {
		return fmt.Errorf("%w: too much is nested at byte %d", ErrTooLarge, d.at)
	}
	d.stack = append(d.stack, v)
	return nil
}

func (d *decoder) broken() error { return fmt.Errorf("%w at byte %d", errBroken, d.at-1) }

// bottom is where the part of the stack begins that operations may take from.
func (d *decoder) bottom() int {
	if len(d.marks) == 0 {
		return 0
	}
	return d.marks[len(d.marks)-1]
}

func (d *decoder) top() (any, error) {
	if len(d.stack) <= d.bottom() {
		return nil, d.broken()
	}
	return d.stack[len(d.stack)-1], nil
}

func (d *decoder) pop() (any, error) {
	v, err := d.top()
	if err == nil {
		d.stack = d.stack[:len(d.stack)-1]
	}
	return v, err
}

// popMark is what stands above the last mark, which goes with it. It is only good until the next push.
func (d *decoder) popMark() ([]any, error) {
	if len(d.marks) == 0 {
		return nil, d.broken()
	}
	from := d.bottom()
	d.marks = d.marks[:len(d.marks)-1]
	items := d.stack[from:]
	d.stack = d.stack[:from]
	return items, nil
}

func (d *decoder) run() (any, error) {
	for {
		op, err := d.number(1)
		if err != nil {
			return nil, err
		}
		if op == '.' {
			v, err := d.pop()
			if err == nil && len(d.stack)+len(d.marks) > 0 {
				err = d.broken()
			}
			return v, err
		}
		if err := d.step(byte(op)); err != nil {
			return nil, err
		}
	}
}

// step does one operation.
func (d *decoder) step(op byte) error {
	switch op {
	case 0x80: // PROTO
		if n, err := d.number(1); err != nil || n > 5 {
			return cmpErr(err, d.broken())
		}
		return nil
	case 0x95: // FRAME, which says how much follows
		_, err := d.number(8)
		return err
	case '(':
		if len(d.marks) == maxMarks {
			return fmt.Errorf("%w: too much is nested at byte %d", ErrTooLarge, d.at)
		}
		d.marks = append(d.marks, len(d.stack))
		return nil
	case '0': // POP
		_, err := d.pop()
		return err
	case '1': // POP_MARK
		_, err := d.popMark()
		return err
	}
	if done, err := d.scalar(op); done {
		return err
	}
	if done, err := d.container(op); done {
		return err
	}
	if done, err := d.memoised(op); done {
		return err
	}
	if name, ok := refused[op]; ok {
		return fmt.Errorf("at byte %d the pickle wants to %s, which no memory snapshot does: nothing of it was run", d.at-1, name)
	}
	return fmt.Errorf("%w: %#02x at byte %d is no operation", errBroken, op, d.at-1)
}

// refused are the operations that make other objects than data, or that no release of Python since 2.3 writes for it.
var refused = map[byte]string{
	'c': "load a class or function (GLOBAL)", 0x93: "load a class or function (STACK_GLOBAL)", 'R': "call something (REDUCE)",
	'i': "make an object (INST)", 'o': "make an object (OBJ)", 0x81: "make an object (NEWOBJ)", 0x92: "make an object (NEWOBJ_EX)",
	'b': "change an object (BUILD)", 'P': "ask for an object by name (PERSID)", 'Q': "ask for an object by name (BINPERSID)",
	0x82: "load an extension (EXT1)", 0x83: "load an extension (EXT2)", 0x84: "load an extension (EXT4)",
	0x8f: "make a set (EMPTY_SET)", 0x90: "fill a set (ADDITEMS)", 0x91: "make a set (FROZENSET)",
	'B': "hold bytes (BINBYTES)", 'C': "hold bytes (SHORT_BINBYTES)", 0x8e: "hold bytes (BINBYTES8)", 0x96: "hold bytes (BYTEARRAY8)",
	'T': "hold bytes (BINSTRING)", 'U': "hold bytes (SHORT_BINSTRING)", 'S': "hold bytes (STRING)",
	0x97: "ask for a buffer (NEXT_BUFFER)", 0x98: "ask for a buffer (READONLY_BUFFER)", '2': "copy what it made last (DUP)",
	'I': "hold numbers as text (INT)", 'L': "hold numbers as text (LONG)", 'F': "hold numbers as text (FLOAT)",
	'V': "hold text by lines (UNICODE)", 'p': "name objects by lines (PUT)", 'g': "name objects by lines (GET)",
}

// cmpErr is the first error that is one.
func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// scalar does operations that make a number or a text, and says whether op is one.
func (d *decoder) scalar(op byte) (bool, error) {
	var v any
	var n uint64
	var err error
	switch op {
	case 'N':
	case 0x88:
		v = true
	case 0x89:
		v = false
	case 'J':
		n, err = d.number(4)
		v = int64(int32(n))
	case 'K':
		n, err = d.number(1)
		v = int64(n)
	case 'M':
		n, err = d.number(2)
		v = int64(n)
	case 0x8a: // LONG1: so many bytes of a number with its sign
		if n, err = d.number(1); err == nil {
			v, err = d.long(n)
		}
	case 'G':
		var b [8]byte
		err = d.read(b[:])
		v = math.Float64frombits(binary.BigEndian.Uint64(b[:]))
	case 0x8c, 'X', 0x8d:
		width := 1
		if op == 'X' {
			width = 4
		} else if op == 0x8d {
			width = 8
		}
		if n, err = d.number(width); err == nil {
			v, err = d.text(n)
		}
	default:
		return false, nil
	}
	return true, cmpErr(err, d.spend(wordBytes), d.push(v))
}

// long is a number of so many bytes. Addresses above the middle of the space have nine.
func (d *decoder) long(n uint64) (any, error) {
	if n > 9 {
		return nil, fmt.Errorf("%w: a number of %d bytes at byte %d", errBroken, n, d.at)
	}
	low, err := d.number(int(min(n, 8)))
	if err != nil || n == 0 {
		return int64(0), err
	}
	if n == 9 {
		sign, err := d.number(1)
		if err == nil && sign != 0 {
			err = d.broken()
		}
		return low, err
	}
	return int64(low<<(64-8*n)) >> (64 - 8*n), nil
}

// container does operations that make or fill lists, tuples and dictionaries, and says whether op is one.
func (d *decoder) container(op byte) (bool, error) {
	switch op {
	case ']', ')':
		return true, cmpErr(d.spend(objectBytes), d.push(&List{}))
	case '}':
		return true, cmpErr(d.spend(objectBytes), d.push(&Dict{}))
	case 't', 'l', 'd':
		items, err := d.popMark()
		if err != nil {
			return true, err
		}
		if op == 'd' {
			made := &Dict{}
			return true, cmpErr(d.spend(objectBytes), d.put(made, items), d.push(made))
		}
		return true, d.list(items)
	case 0x85, 0x86, 0x87: // TUPLE1 to TUPLE3
		n := int(op - 0x84)
		if len(d.stack)-d.bottom() < n {
			return true, d.broken()
		}
		items := d.stack[len(d.stack)-n:]
		d.stack = d.stack[:len(d.stack)-n]
		return true, d.list(items)
	case 'a', 's': // APPEND, SETITEM
		n := 1
		if op == 's' {
			n = 2
		}
		if len(d.stack)-d.bottom() < n+1 {
			return true, d.broken()
		}
		items := d.stack[len(d.stack)-n:]
		d.stack = d.stack[:len(d.stack)-n]
		return true, d.fill(op == 's', items)
	case 'e', 'u': // APPENDS, SETITEMS
		items, err := d.popMark()
		if err != nil {
			return true, err
		}
		return true, d.fill(op == 'u', items)
	}
	return false, nil
}

func (d *decoder) list(items []any) error {
	if err := d.spend(objectBytes + itemBytes*int64(len(items))); err != nil {
		return err
	}
	return d.push(&List{Items: append([]any(nil), items...)})
}

// fill puts items into what is on top of the stack.
func (d *decoder) fill(pairs bool, items []any) error {
	target, err := d.top()
	if err != nil {
		return err
	}
	switch target := target.(type) {
	case *List:
		if pairs {
			return d.broken()
		}
		// twice: a slice that grows has room for more than it holds
		if err := d.spend(2 * itemBytes * int64(len(items))); err != nil {
			return err
		}
		target.Items = append(target.Items, items...)
		return nil
	case *Dict:
		if pairs {
			return d.put(target, items)
		}
	}
	return d.broken()
}

func (d *decoder) put(into *Dict, items []any) error {
	if len(items)%2 != 0 {
		return d.broken()
	}
	if err := d.spend(2 * itemBytes * int64(len(items))); err != nil {
		return err
	}
	for i := 0; i < len(items); i += 2 {
		switch items[i].(type) {
		case *List, *Dict:
			return fmt.Errorf("%w: a key at byte %d is no text or number", errBroken, d.at-1)
		}
		into.keys, into.values = append(into.keys, items[i]), append(into.values, items[i+1])
	}
	return nil
}

// memoised does operations that keep what was made for later, and says whether op is one. Pickler numbers in order.
func (d *decoder) memoised(op byte) (bool, error) {
	width := 0
	switch op {
	case 0x94: // MEMOIZE
	case 'q', 'h':
		width = 1
	case 'r', 'j':
		width = 4
	default:
		return false, nil
	}
	n := uint64(len(d.memo))
	if width > 0 {
		var err error
		if n, err = d.number(width); err != nil {
			return true, err
		}
	}
	if op == 'h' || op == 'j' {
		if n >= uint64(len(d.memo)) {
			return true, d.broken()
		}
		return true, d.push(d.memo[n])
	}
	v, err := d.top()
	switch {
	case err != nil:
		return true, err
	case n < uint64(len(d.memo)):
		d.memo[n] = v
		return true, nil
	case n > uint64(len(d.memo)):
		return true, d.broken()
	}
	d.memo = append(d.memo, v)
	return true, d.spend(2 * wordBytes)
}
