// Package agentapi gives the other streams of Hermes' API the end that they lack: those
// of /v1/responses, /v1/runs/{id}/events and /api/sessions/{id}/chat/stream (wire
// contract, section 6). They pass byte for byte, but for secrets in what they say of a
// failure. One that is cut before its own last event gets an event that says so.
//
//	stream.go    Stream: what kind of stream it is, and whether it has ended
//	event.go     an event, its members and its numbers
//	said.go      what a stream has said, and its open tools
//	failed.go    the events that say that it has failed
//
// Every stream has a Stream until it turns out to be one of chat completions. Once its
// kind is known it does not change. After ended, no event changes anything but code; if
// the sidecar has written the last event itself, what upstream still sends is dropped.
//
// A Stream takes about 300 bytes, and what its last events need: ids, the response as it began
// (at most MaxResponse bytes), and open tools (at most contract.MaxOpenBytes). After its end it
// keeps only ids. An event is asked for the members that matter without being validated; what is
// repeated later is validated when it is remembered.
package agentapi
