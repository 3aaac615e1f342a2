package resume

import (
	"context"
	"encoding/json"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// An entry describes a log, with what the ways to ask for one know about it.
type entry struct {
	log.Entry
	about
}

// about is what a store keeps of an entry without knowing it.
type about struct {
	// Owner is a keyed hash of the resource and of the credentials of the request: clients with the
	// same hash may have the log.
	Owner log.Digest
	// Body is a hash of the body of a request that has a key.
	Body log.Digest
	// Path is the path of the request, and Progress the value of its ProgressHeader. Finish needs
	// them.
	Path, Progress string
	// Plain says that the log has the events of a run of Hermes', whose ids are plain numbers.
	Plain bool `json:",omitzero"`
	// Of is the ID of the log that this one is another name of, "" if it is a log of its own.
	// Another name has an answer without a header and events. Cancelled is the response with that
	// name, JSON, that answers a request to cancel it.
	Of, Cancelled string `json:",omitzero"`
}

// entryFrom returns e, which a store has returned, as an entry of this package.
func entryFrom(e log.Entry) entry {
	own := entry{Entry: e}
	_ = json.Unmarshal(e.About, &own.about) // an entry of another package has no owner
	return own
}

// claim claims a log for e from s.
func (e entry) claim(ctx context.Context, s log.Store, run log.Run) (have entry, w log.Writer, err error) {
	e.About, _ = json.Marshal(e.about) // never fails: it has only strings and numbers
	is, w, err := s.Claim(ctx, e.Entry, run)
	if w != nil || err != nil {
		return e, w, err
	}
	return entryFrom(is), nil, nil
}

// find returns the entry of the log with the id.
func find(ctx context.Context, s log.Store, id string) (entry, error) {
	e, err := s.Find(ctx, id)
	if err != nil {
		return entry{}, err
	}
	return entryFrom(e), nil
}
