package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// walPages are the pages that readers of an SQLite database take from its write-ahead log, and not from the file.
//
// A checkpoint writes pages into the file from the first on, whose header says how long the file will be. While it is
// under way, and after a process that was killed in it, the file is shorter than that, and what it lacks is in the log.
// Once a checkpoint is through, readers do not look into the log for it any more, though the pages may be there still.
//
// Sources: https://www.sqlite.org/fileformat2.html#the_write_ahead_log (header of 32 bytes, frames of 24 and a page),
// https://www.sqlite.org/walformat.html (the index: of its first 136 bytes, those from 96 on are how many frames were
// checkpointed), wal.c of SQLite 3.51 (walTryBeginRead: frames up to that number are not looked for).
func walPages(path string) (map[uint32]bool, error) {
	f, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look at the database's log: %w", err)
	}
	defer f.Close() // it was only read
	done, err := checkpointed(path)
	if err != nil {
		return nil, err
	}
	const headerBytes, frameBytes = 32, 24
	var header [headerBytes]byte
	if _, err := io.ReadFull(f, header[:]); err != nil {
		return nil, nil // an empty log
	}
	page := int64(binary.BigEndian.Uint32(header[8:]))
	if page < 512 || page > 1<<16 {
		return nil, nil
	}
	salts := header[16:24]
	pages, transaction := map[uint32]bool{}, []uint32(nil)
	var frame [frameBytes]byte
	for n := int64(0); ; n++ {
		if _, err := f.ReadAt(frame[:], headerBytes+n*(frameBytes+page)); err != nil ||
			!bytes.Equal(frame[8:16], salts) { // the end, or what a former log left
			return pages, nil
		}
		if n >= done {
			transaction = append(transaction, binary.BigEndian.Uint32(frame[:]))
		}
		if commits := binary.BigEndian.Uint32(frame[4:]) != 0; commits {
			for _, p := range transaction {
				pages[p] = true
			}
			transaction = transaction[:0]
		}
	}
}

// checkpointed is how many frames of the log readers do not look into any more; 0 where nobody has the database open.
func checkpointed(path string) (int64, error) {
	f, err := os.Open(path + "-shm")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at the index of the database's log: %w", err)
	}
	defer f.Close() // it was only read
	const place = 96
	var n [4]byte
	if _, err := f.ReadAt(n[:], place); err != nil {
		return 0, nil
	}
	return int64(binary.NativeEndian.Uint32(n[:])), nil
}
