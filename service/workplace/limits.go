package workplace

import (
	"math"
	"runtime"
	"time"
)

// Limits bound what clients take. Zero is no bound.
type Limits struct {
	// RatePerSecond bounds the requests of one client, lines of batches included.
	RatePerSecond float64
	// MaxConcurrent bounds the places of each size of work, MaxConcurrentPerClient those of one client; where only the
	// first is given, the other is a quarter.
	MaxConcurrent, MaxConcurrentPerClient int
	// MaxReadings are the places for readings of strangers' files, of which one client has half.
	MaxReadings int
	// MaxQueue bounds the work that waits for a place, QueueTimeout how long.
	MaxQueue     int
	QueueTimeout time.Duration
	// RequestTimeout is how long work may take, waiting included.
	RequestTimeout time.Duration
	// ReplayBytes is the memory of all that works, MaxHeldBytes that of documents and answers.
	ReplayBytes, MaxHeldBytes int64
	// BytesOutPerSecond bounds the bytes of answers that one client gets; it may have four seconds' worth at once.
	BytesOutPerSecond int64
}

// DefaultPlaces are those of a service that was told nothing else. Work keeps one core busy. More at once than a few a
// core answers no sooner, but with fewer what is slow holds up what is fast behind it.
func DefaultPlaces() int { return max(16, 4*runtime.GOMAXPROCS(0)) }

// New is a workplace with these limits.
func New(l Limits) *Place {
	many := func(n int) int {
		if n <= 0 {
			return math.MaxInt
		}
		return n
	}
	bytes, held := l.ReplayBytes, l.MaxHeldBytes
	if bytes <= 0 {
		bytes = math.MaxInt64 / 2
	}
	if held <= 0 {
		held = math.MaxInt64
	}
	if l.MaxConcurrent > 0 && l.MaxConcurrentPerClient <= 0 {
		l.MaxConcurrentPerClient = max(2, l.MaxConcurrent/4)
	}
	slots, ofClient := many(l.MaxConcurrent), min(many(l.MaxConcurrent), many(l.MaxConcurrentPerClient))
	quickOfClient := max(ofClient, slots/2) // they are free again within milliseconds
	l.MaxQueue = many(l.MaxQueue)
	return &Place{limits: l, clients: newClients(l), metrics: newMetrics(), works: map[*work]struct{}{},
		queue: map[string][]*work{}, refused: map[string]int{},
		ordinary: bytes / 16,
		quick:    newRoom(bytes/8, slots, quickOfClient, l.QueueTimeout),
		small:    newRoom(bytes/8, slots, ofClient, l.QueueTimeout),
		large:    newRoom(bytes-bytes/8*2, slots, ofClient, 0),
		readings: newRoom(0, many(l.MaxReadings), max(1, many(l.MaxReadings)/2), l.QueueTimeout),
		cores:    newCores(runtime.GOMAXPROCS(0)), held: heldBytes{most: held}}
}
