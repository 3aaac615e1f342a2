package resume

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/hermes-sidecar/hermes-sidecar/internal/head"
)

// A problem is what a client gets instead of a log (RFC 9457).
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// First is the number of the first event that is there, of 410.
	First uint64 `json:"first,omitempty"`
}

// send answers with the problem. A client that sends the same again gets the same or, with a key
// when the storage does not answer, runs the agent again (contract section 3, "Again").
func (p problem) send(w http.ResponseWriter) {
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

// unknown is the answer to an id of no stream, or of another client's.
func unknown() problem {
	return problem{
		Title: "Unknown stream", Status: http.StatusNotFound,
		Detail: "There is no stream with this id, or there is none any more. Send the request again without Last-Event-ID and with a new Idempotency-Key; the agent will run again.",
	}
}

// unavailable is the answer to a client whose stream cannot be looked for.
func unavailable() problem {
	return problem{
		Title: "Streams cannot be reached", Status: http.StatusServiceUnavailable,
		Detail: "What keeps the streams does not answer. Ask for the stream again later, by its id.",
	}
}

// missing is the answer if there is no log, because of err.
func missing(err error) problem {
	if errors.Is(err, ErrDropped) {
		return unknown()
	}
	return unavailable()
}

// mismatch is the answer to a key that was used for another request.
func mismatch() problem {
	return problem{
		Title: "Idempotency-Key is already used", Status: http.StatusUnprocessableEntity,
		Detail: "This Idempotency-Key was used with another request body. Use a new key for each request, and the same body, byte for byte, when you send a request again.",
	}
}

// otherKey is the answer to a position in a stream of another key, or of none.
func otherKey() problem {
	return problem{
		Title: "Idempotency-Key is not the stream's", Status: http.StatusUnprocessableEntity,
		Detail: "The stream that Last-Event-ID names did not begin with this Idempotency-Key. Leave out the key to continue that stream, or Last-Event-ID to send another request.",
	}
}

// twoKeys is the answer to a request with more than one key.
func twoKeys() *problem {
	return &problem{
		Title: "More than one " + KeyHeader, Status: http.StatusBadRequest,
		Detail: "A request has one Idempotency-Key. Send the header once.",
	}
}

// gone is the answer to a position whose events are no longer kept.
func gone(first uint64) problem {
	return problem{
		Title: "Events are gone", Status: http.StatusGone, First: first,
		Detail: "The events after this position are no longer kept. The member first is the number of the first one that is; continue after the one before it.",
	}
}

// ahead is the answer to a position that the stream does not have, or not yet.
func ahead() problem {
	return problem{
		Title: "No such event", Status: http.StatusBadRequest,
		Detail: "Last-Event-ID names no event of this stream. Send the id of the last event of it that you have received.",
	}
}

// unreadable is the answer to a request whose body cannot be read.
func unreadable() problem {
	return problem{
		Title: "Unreadable body", Status: http.StatusBadRequest,
		Detail: "The body of the request could not be read to its end. Send it whole, or none.",
	}
}

// badDetach is the answer to a header that is no duration.
func badDetach() *problem {
	return &problem{
		Title: "Invalid " + DetachHeader, Status: http.StatusBadRequest,
		Detail: "The value must be a duration such as 10m or 30s, not negative. 0s turns it off.",
	}
}
