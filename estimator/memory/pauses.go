package memory

// pauses ends Serve before a request for which more would be reserved than was asked for.
type pauses struct {
	above   int64 // 0 for never
	serving bool  // other requests than those of a script are not paused
	at      int64 // what would have been reserved in all; 0 where there is no pause
}

// before says whether there is a pause before so many bytes in all are reserved.
func (p *pauses) before(bytes int64) bool {
	if !p.serving || p.above == 0 || bytes <= p.above {
		return false
	}
	p.at = bytes
	return true
}

// PauseAbove lets Serve end before the next request for which more than so many bytes in all would be reserved; 0 lets
// it go on to its end.
func (a *Allocator) PauseAbove(bytes int64) { a.pauses.above = bytes }

// Paused says how many bytes in all would be reserved for the request before which Serve ended; 0 where it did not end
// for that.
func (a *Allocator) Paused() int64 { return a.pauses.at }
