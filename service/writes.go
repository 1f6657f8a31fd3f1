package service

import (
	"context"
	"time"
)

// The time between two probes of a database that refuses writes, the first and the longest.
const (
	probeFirst = time.Second
	probeMost  = 30 * time.Second
)

// WatchWrites looks, until ctx ends, whether writes to the store succeed. While they do not it makes one that changes
// nothing now and then, less and less often, so that they count as taken again without anybody's having to try. report
// gets the reason when the first write fails, and nil when one succeeds again.
func (s *Service) WatchWrites(ctx context.Context, report func(error)) {
	if s.store == nil {
		return
	}
	var refused bool
	for wait := probeFirst; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		since, reason := s.store.WritesRefused()
		switch {
		case since.IsZero():
			if refused {
				report(nil)
			}
			refused, wait = false, probeFirst
			continue
		case !refused:
			refused = true
			report(reason)
		default:
			wait = min(2*wait, probeMost)
		}
		probing, cancel := context.WithTimeout(ctx, storeTimeout)
		_ = s.store.ProbeWrite(probing) // the store notes what becomes of it
		cancel()
	}
}
