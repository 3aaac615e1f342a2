// Package agentapi gives the other streams of Hermes' API the end that they lack: those
// of /v1/responses, /v1/runs/{id}/events and /api/sessions/{id}/chat/stream (wire
// contract, section 6). They pass byte for byte, but for secrets in what they say of a
// failure; one that is cut before its own last event gets an event that says so.
//
//	stream.go    Stream: what kind of stream it is, and whether it has ended
//	members.go   the members of an event that tell
//	responses.go those of /v1/responses
//	runs.go      those of /v1/runs/{id}/events
//	sessions.go  those of /api/sessions/{id}/chat/stream
//	large.go     their frames that are larger than max_frame
//
// A Stream remembers what its last event needs: ids, the response as it began with (at
// most 64 KiB), the session's open tools (at most 128 KiB). Once it has ended it
// remembers no more than ids.
package agentapi
