package source

// Text is a file's text by where it lies, so that what was made of it is found again: files are opened once.
type Text struct {
	first *byte
	size  int
}

// TextOf is the key of a text.
func TextOf(text []byte) Text {
	if len(text) == 0 {
		return Text{}
	}
	return Text{&text[0], len(text)}
}

// Once is what was made of a file for a command before, or makes it. The key is of a type of the caller's own, and has
// all that what is made depends on. What is made is shared: nobody may change it.
func Once[K comparable, V any](f *Files, key K, make func() V) V {
	if made, ok := f.made[key].(V); ok {
		return made
	}
	made := make()
	f.made[key] = made
	return made
}
