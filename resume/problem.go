package resume

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
)

// A problem is an error that a client gets instead of a log (RFC 9457).
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// First is the number of the first event that is there, of 410.
	First uint64 `json:"first,omitempty"`
}

// Error implements error.
func (p *problem) Error() string { return p.Title }

// send answers with the problem. A client that sends the same again gets the same or, with a key
// when the storage does not answer, runs the agent again (contract section 3, "Again").
func (p *problem) send(w http.ResponseWriter) {
	body, _ := json.Marshal(p) // strings and numbers
	body = append(body, '\n')
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set(head.Retry, "false")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // an error cannot be sent either
}

var (
	// errUnknown: the id is of no stream, or of another client's.
	errUnknown = newProblem(http.StatusNotFound, "Unknown stream",
		"There is no stream with this id, or there is none any more. Send the request again without Last-Event-ID and with a new Idempotency-Key; the agent will run again.")
	// errUnavailable: the storage does not answer.
	errUnavailable = newProblem(http.StatusServiceUnavailable, "Streams cannot be reached",
		"What keeps the streams does not answer. Ask for the stream again later, by its id.")
	// errMismatch: the key was used for another request.
	errMismatch = newProblem(http.StatusUnprocessableEntity, "Idempotency-Key is already used",
		"This Idempotency-Key was used with another request body. Use a new key for each request, and the same body, byte for byte, when you send a request again.")
	// errOtherKey: the position is in a stream of another key, or of none.
	errOtherKey = newProblem(http.StatusUnprocessableEntity, "Idempotency-Key is not the stream's",
		"The stream that Last-Event-ID names did not begin with this Idempotency-Key. Leave out the key to continue that stream, or Last-Event-ID to send another request.")
	// errTwoKeys: the request has more than one key.
	errTwoKeys = newProblem(http.StatusBadRequest, "More than one "+KeyHeader,
		"A request has one Idempotency-Key. Send the header once.")
	// errNoEvent: the stream does not have the position, or not yet.
	errNoEvent = newProblem(http.StatusBadRequest, "No such event",
		"Last-Event-ID names no event of this stream. Send the id of the last event of it that you have received.")
	// errUnreadable: the body of the request cannot be read.
	errUnreadable = newProblem(http.StatusBadRequest, "Unreadable body",
		"The body of the request could not be read to its end. Send it whole, or none.")
	// errBadDetach: the header is no duration.
	errBadDetach = newProblem(http.StatusBadRequest, "Invalid "+DetachHeader,
		"The value must be a duration such as 10m or 30s, not negative. 0s turns it off.")
)

func newProblem(status int, title, detail string) *problem {
	return &problem{Title: title, Status: status, Detail: detail}
}

// problemOf returns the problem that a store's error is to a client.
func problemOf(err error) *problem {
	gone, isGone := errors.AsType[*GoneError](err)
	switch {
	case errors.Is(err, ErrDropped):
		return errUnknown
	case errors.Is(err, ErrAhead):
		return errNoEvent
	case isGone:
		p := newProblem(http.StatusGone, "Events are gone",
			"The events after this position are no longer kept. The member first is the number of the first one that is; continue after the one before it.")
		p.First = gone.First
		return p
	}
	return errUnavailable
}
