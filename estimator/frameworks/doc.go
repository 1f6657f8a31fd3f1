// Package frameworks says what training frameworks do of themselves: what their loops keep, whose models they train,
// which checkpoints they ask for, what they store, how they replicate, shard and adapt. A framework is a row of
// [Frameworks].
package frameworks
