// Package pickle reads a subset of Python's pickle format that holds data and nothing else: None, booleans, numbers,
// text, lists, tuples and dictionaries. Whatever would make another object, call something or load code is refused by
// name where it stands, before anything is made of it, so that reading a file runs nothing.
//
// That is what torch.cuda.memory._dump_snapshot writes (torch/cuda/memory.py, pickle.dump of _snapshot()). What is made
// of a file is bounded by [Limits]; nothing here recurses, and texts are only made as long as the file really is.
//
// Source of the operations: CPython Lib/pickletools.py and Lib/pickle.py (_Unpickler), protocols 0 to 5.
package pickle
