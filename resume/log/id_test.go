package log

import (
	"crypto/sha256"
	"fmt"
	"testing"
)

// TestPlaces gives the logs of a key one place, and those of many keys many.
func TestPlaces(t *testing.T) {
	places, ids := make(map[string]bool), make(map[string]bool)
	const keys = 1000
	for n := range keys {
		key := Digest(sha256.Sum256([]byte(fmt.Sprint(n))))
		a, b := NewID(key), NewID(key)
		if Place(a) != Place(b) || len(Place(a)) != placeSize || a == b || !IsID(a) {
			t.Fatalf("%s and %s", a, b)
		}
		if e := (Entry{ID: NewID(Digest{}), Key: key}); e.KeyPlace() != Place(a) {
			t.Fatalf("%s is the place of the key, that of an id %s", e.KeyPlace(), a)
		}
		places[Place(a)], ids[a], ids[b] = true, true, true
	}
	if len(places) < keys/2 || len(ids) != 2*keys {
		t.Errorf("%d places, %d ids", len(places), len(ids))
	}
	if e := (Entry{ID: NewID(Digest{})}); e.KeyPlace() != Place(e.ID) {
		t.Error("an id without a key has another place")
	}
	for id, want := range map[string]string{"stream_": "", "stream_a": "a", "": "", "other": "oth"} {
		if got := Place(id); got != want {
			t.Errorf("the place of %q is %q", id, got)
		}
	}
}
