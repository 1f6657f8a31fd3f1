package source

// Programs are training programs that are known by what they consist of: the fingerprints of their releases, by name.
type Programs map[string]map[string]bool
