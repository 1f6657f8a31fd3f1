// Package session plays what runs: a [Player] records a micro-step of a resolved job on a tape, adds up what is
// alive, and asks package replay what the caching allocator makes of it, as far as the question needs. How sure the
// figures are ([Player.Doubts] and their bounds) decides how far that is.
package session
