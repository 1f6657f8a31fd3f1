package service

import "slices"

// Precondition is what a client that changes an entry says it knows of it.
type Precondition struct {
	// Absent: there is no such entry (If-None-Match: *).
	Absent bool
	// Versions: the entry has one of these versions (If-Match); "*" is any.
	Versions []string
}

// given says whether the client said anything.
func (p Precondition) given() bool { return p.Absent || len(p.Versions) > 0 }

// holds compares with the entry that there is; version is "" where there is none.
func (p Precondition) holds(version string) bool {
	if p.Absent && version != "" {
		return false
	}
	if len(p.Versions) == 0 {
		return true
	}
	return version != "" && (slices.Contains(p.Versions, version) || slices.Contains(p.Versions, "*"))
}

// check refuses a change whose precondition does not hold.
func (p Precondition) check(kind EntryKind, id, version string) error {
	switch {
	case p.holds(version):
		return nil
	case version == "":
		return failed(CodePreconditionFailed, "there is no %s %q; create it with If-None-Match: *", kind, id)
	case p.Absent:
		return failed(CodePreconditionFailed, "there is a %s %q already, with the version %q; replace it with If-Match",
			kind, id, version)
	}
	return failed(CodePreconditionFailed, "the %s %q has the version %q now; read it again before changing it", kind,
		id, version)
}

func preconditionRequired(kind EntryKind, id string) error {
	return failed(CodePreconditionRequired, "say what is known of the %s %q: If-Match with the ETag of the entry to "+
		"be changed, or If-None-Match: * to create one", kind, id)
}
