package proxy

import "net/http"

// FireLate runs the timers of the exchange that a handler has got as w, as if they had
// fired too late to be stopped.
func FireLate(w http.ResponseWriter) {
	x := w.(*exchange)
	x.tick()
	x.drainEnded(true)
}
