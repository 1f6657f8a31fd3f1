package diagnose

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// marked is a line that may belong to a failure or to a table that is read.
var marked = regexp.MustCompile(`(?i)out of memory|OutOfMemory|OOM|Allocation on device|STATUS_ALLOC_FAILED|STATUS_NOT_INITIALIZED|RESOURCE_EXHAUSTED|memory summary|allocated_bytes\.all|memory\.(?:total|used|free)|used_(?:gpu_)?memory|MiB\s*/\s*\d+MiB|MemoryError|bad_alloc|insufficient shared memory|CPUAllocator|Cannot allocate memory|exit ?code *:? -9|return code = -9|code 137|paging file|C?UDA [cm]alloc|cuDNN algorithm|unable to find an engine|cache blocks|KV cache|out of resource|resources requested|illegal memory|misaligned|device-side assert`)

// hints are parts of every line that marked finds: looking for them first is ten times as fast, and logs are long.
var hints = [...]string{"emory", "EMORY", "OOM", "oom", "n device", "STATUS_", "EXHAUSTED", "_bytes.all", "MiB",
	"bad_alloc", "CPUAllocator", "code", "paging", "alloc", "cuDNN alg", "engine", "cache", "resource", "misaligned",
	"device-side"}

func matters(line string) bool {
	for _, h := range hints {
		if strings.Contains(line, h) {
			return marked.MatchString(line)
		}
	}
	return false
}

const (
	// linesBehind is how many lines behind a marked one are kept: a table, or a message that a terminal broke.
	linesBehind = 24
	// longestLine is how much of a line is kept: progress bars write megabytes without a line end.
	longestLine = 8 << 10
	// longestLog is how much of a log is looked through.
	longestLog = 4 << 30
)

// errPickle is a memory snapshot as PyTorch writes it.
var errPickle = errors.New("it is a pickle: a memory snapshot is given as --snapshot FILE (vramplan diagnose), which " +
	"reads it without running it")

// errSnapshot is JSON that begins as a memory snapshot does and cannot be read.
var errSnapshot = errors.New("it begins as a memory snapshot in JSON, and is broken or of another form")

// snapshotHead is how much of a text is looked at to tell whether it is a snapshot.
const snapshotHead = 4 << 10

// Extract reads a log of any length and keeps the lines that can matter: those around each failure, up to
// [MaxTextBytes]. It keeps a short text as it is. The error is that of r, or says that it holds a pickle.
func Extract(r io.Reader) (string, error) {
	in := bufio.NewReaderSize(io.LimitReader(r, longestLog), 64<<10)
	var whole, kept strings.Builder
	short := true
	if head, err := in.Peek(2); err == nil && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 {
		return "", errPickle
	}
	before := make([]string, 0, tracebackLines)
	behind := 0
	if head, _ := in.Peek(snapshotHead); looksLikeSnapshot(head) {
		if lines := snapshotText(in); lines != "" {
			return lines, nil
		}
		return "", errSnapshot
	}
	for {
		text, err := readLine(in)
		if text != "" {
			if short {
				whole.WriteString(text)
				short = whole.Len() <= MaxTextBytes
			}
			switch {
			case kept.Len() > MaxTextBytes-longestLine:
			case matters(text):
				for _, b := range before {
					if kept.Len()+len(b) < MaxTextBytes-longestLine {
						kept.WriteString(b)
					}
				}
				before = before[:0]
				kept.WriteString(text)
				behind = linesBehind
			case behind > 0:
				kept.WriteString(text)
				behind--
			case len(before) == tracebackLines:
				before = append(before[:0], before[1:]...)
				fallthrough
			default:
				before = append(before, text)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("line by line: %w", err)
		}
	}
	if short {
		return whole.String(), nil
	}
	return kept.String(), nil
}

// readLine is the next line with its end, cut to longestLine.
func readLine(in *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		part, err := in.ReadSlice('\n')
		if room := longestLine - b.Len(); len(part) > room {
			b.Write(part[:max(room, 0)])
		} else {
			b.Write(part)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return b.String(), err
		}
	}
}
