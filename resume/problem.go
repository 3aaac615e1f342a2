package resume

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
)

// A problem is an error that a client gets instead of a log (RFC 9457).
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// First is the number of the first event that is there, of 410.
	First uint64 `json:"first,omitempty"`
}

func (p *problem) Error() string { return p.Title }

// send answers with the problem. Only errUnsure lets SDKs send the request again: after another
// problem they would get the same one or, with a key when the storage does not answer, run the
// agent again (contract section 3, "Again").
func (p *problem) send(w http.ResponseWriter) {
	body, _ := json.Marshal(p) // never fails: strings and numbers
	body = append(body, '\n')
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set(head.Retry, strconv.FormatBool(p == errUnsure))
	switch p.Status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodGet)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // an error cannot be sent either
}

// The problems that clients get.
var (
	errUnknown = &problem{"Unknown stream", http.StatusNotFound,
		"There is no stream with this id, or it has been deleted. Send the request again without Last-Event-ID and with a new Idempotency-Key; the agent will run again.", 0}
	// errNoBeginning is for an answer that is no event stream. For a POST without Last-Event-ID,
	// upstream is asked again instead.
	errNoBeginning = &problem{"The answer is no longer kept", http.StatusGone,
		"The answer grew too large to be kept. Send the request again.", 0}
	errUnavailable = &problem{"Streams cannot be reached", http.StatusServiceUnavailable,
		"The storage of streams does not answer. Request the stream again later, by its id.", 0}
	errUnsure = &problem{"Streams cannot be reached", http.StatusServiceUnavailable,
		"The storage of streams does not answer, and the agent may already be running for this Idempotency-Key. Send the same request with the same key again later.", 0}
	errMismatch = &problem{"Idempotency-Key is already used", http.StatusUnprocessableEntity,
		"This Idempotency-Key was used with another request body. Use a new key for each request, and the same body, byte for byte, when you send a request again.", 0}
	errOtherBody = &problem{"The key is already used", http.StatusUnprocessableEntity,
		"The key that the site derives from this request was used with another request body. The site's operator can make the body a part of the key.", 0}
	errOtherKey = &problem{"Idempotency-Key of another stream", http.StatusUnprocessableEntity,
		"The stream that Last-Event-ID names did not begin with this Idempotency-Key. Leave out the key to continue that stream, or Last-Event-ID to send another request.", 0}
	errTwoKeys = &problem{"More than one " + KeyHeader, http.StatusBadRequest,
		"A request can have only one Idempotency-Key. Send the header once.", 0}
	errNoEvent = &problem{"No such event", http.StatusBadRequest,
		"Last-Event-ID names no event of this stream. Send the id of the last event of the stream that you have received.", 0}
	errNotKept = &problem{"The events are not kept", http.StatusMethodNotAllowed,
		"No events of this run are kept, and a HEAD request to the agent would take them away from their reader. Send a GET.", 0}
	errUnreadable = &problem{"Unreadable body", http.StatusBadRequest,
		"The body of the request ended early. Send all of it, or none.", 0}
	errBadStartingAfter = &problem{"Invalid starting_after", http.StatusBadRequest,
		"The value must be a sequence_number of 0 or more. Leave it out for the whole stream.", 0}
	errBadDetach = &problem{"Invalid " + DetachHeader, http.StatusBadRequest,
		"The value must be a duration such as 10m or 30s, and not negative. 0s turns it off.", 0}
)

// mustNotRun returns the problem for err, an error of a claim, if the request must not run: the agent
// may run for its key already. It returns nil for other errors and none.
func mustNotRun(err error) error {
	switch {
	case errors.Is(err, log.ErrTaken):
		return errUnavailable
	case errors.Is(err, log.ErrUnsure):
		return errUnsure
	}
	return nil
}

// problemOf returns the problem that a client gets for err, an error of a store.
func problemOf(err error) *problem {
	gone, isGone := errors.AsType[*log.GoneError](err)
	switch {
	case errors.Is(err, log.ErrDropped):
		return errUnknown
	case errors.Is(err, log.ErrAhead):
		return errNoEvent
	case isGone:
		return &problem{"Events are no longer kept", http.StatusGone,
			"The events after this position are no longer kept. The member first is the number of the oldest event that is kept; continue after the event before it.",
			gone.First}
	}
	return errUnavailable
}

// answerProblem answers with err if it is a problem, and returns any other error.
func answerProblem(w http.ResponseWriter, err error) error {
	if problem, ok := errors.AsType[*problem](err); ok {
		problem.send(w)
		return nil
	}
	return err
}
