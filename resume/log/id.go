package log

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
)

// A Digest is a hash.
type Digest [sha256.Size]byte

// idPrefix begins the id of every log, so that no other id in a path looks like one. 22 characters
// follow: 128 random bits, or 110 after the place of a key.
const idPrefix = "stream_"

// The place of an id is its first characters after idPrefix. Logs with the same key have the same
// place, so that a store that is spread over servers keeps them, and their key, at one server.

// placeSize is how many characters the place has: 18 bits, for the 16384 slots of a Redis Cluster.
const placeSize = 3

// idForm is the form of an id.
var idForm = regexp.MustCompile(`^` + idPrefix + `[A-Za-z0-9_-]{22}$`)

// NewID returns a new id for a log with the key, zero for none. No other log has it.
func NewID(key Digest) string {
	var b Digest
	_, _ = rand.Read(b[:]) // never fails
	id := DerivedID(b)
	if key == (Digest{}) {
		return id
	}
	return idPrefix + placeOf(key) + id[len(idPrefix)+placeSize:]
}

// DerivedID returns the id that is derived from d, a keyed hash. It is at the place of the key d.
func DerivedID(d Digest) string { return idPrefix + base64.RawURLEncoding.EncodeToString(d[:16]) }

// IsID reports whether s has the form of the id of a log, and so can be an element of a path.
func IsID(s string) bool { return idForm.MatchString(s) }

// Place returns the first characters of an id after its prefix, which name its place.
func Place(id string) string {
	id = strings.TrimPrefix(id, idPrefix)
	return id[:min(len(id), placeSize)]
}

// placeOf returns the place of the logs with the key.
func placeOf(key Digest) string {
	return base64.RawURLEncoding.EncodeToString(key[:placeSize])[:placeSize]
}

// KeyPlace returns the place of all logs with the key of e or, without a key, that of its id.
func (e *Entry) KeyPlace() string {
	if e.Key == (Digest{}) {
		return Place(e.ID)
	}
	return placeOf(e.Key)
}
