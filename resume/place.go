package resume

import (
	"encoding/base64"
	"strings"
)

// The place of an id is its first characters after idPrefix. Entries with the same Key have the
// same place, so that a store that is spread over servers keeps them, and their key, at one server.

// placeSize is how many characters the place has: 18 bits, for the 16384 slots of a Redis Cluster.
const placeSize = 3

// Place returns the place of an id.
func Place(id string) string {
	id = strings.TrimPrefix(id, idPrefix)
	return id[:min(len(id), placeSize)]
}

// KeyPlace returns the place of all entries with the key of e or, without a key, that of its id.
func (e *Entry) KeyPlace() string {
	if e.Key == (Digest{}) {
		return Place(e.ID)
	}
	return base64.RawURLEncoding.EncodeToString(e.Key[:placeSize])[:placeSize]
}

// placed returns id with the place of key or, if key is zero, id itself. 110 random bits stay.
func placed(id string, key Digest) string {
	if key == (Digest{}) {
		return id
	}
	e := Entry{Key: key}
	return idPrefix + e.KeyPlace() + id[len(idPrefix)+placeSize:]
}
