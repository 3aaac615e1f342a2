package proxy

import "net/http"

// FireLate runs the timer of the exchange that a handler has got as w, as if it had
// fired too late to be stopped.
func FireLate(w http.ResponseWriter) {
	x := w.(*exchange)
	x.tick()
}

// ObjectEnd is objectEnd.
type ObjectEnd struct{ end objectEnd }

// Take is its take.
func (o *ObjectEnd) Take(b []byte) bool { return o.end.take(b) }
