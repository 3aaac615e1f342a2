package resume

import (
	"fmt"
	"testing"
)

// TestPlaces gives the logs of a key one place, and those of many keys many.
func TestPlaces(t *testing.T) {
	places, ids := make(map[string]bool), make(map[string]bool)
	const keys = 1000
	for n := range keys {
		key := hash([]byte("secret"), [][]string{{fmt.Sprint(n)}})
		a, b := placed(NewID(), key), placed(NewID(), key)
		if Place(a) != Place(b) || len(Place(a)) != placeSize || a == b || !idForm.MatchString(a) {
			t.Fatalf("%s and %s", a, b)
		}
		if e := (Entry{ID: NewID(), Key: key}); e.KeyPlace() != Place(a) {
			t.Fatalf("%s is the place of the key, that of an id %s", e.KeyPlace(), a)
		}
		places[Place(a)], ids[a], ids[b] = true, true, true
	}
	if len(places) < keys/2 || len(ids) != 2*keys {
		t.Errorf("%d places, %d ids", len(places), len(ids))
	}
	id := NewID()
	if e := (Entry{ID: id}); placed(id, Digest{}) != id || e.KeyPlace() != Place(id) {
		t.Error("an id without a key changes")
	}
	for id, want := range map[string]string{"stream_": "", "stream_a": "a", "": "", "other": "oth"} {
		if got := Place(id); got != want {
			t.Errorf("the place of %q is %q", id, got)
		}
	}
}
