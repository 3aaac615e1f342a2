package rewrite

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/agentapi"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chat"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/chunk"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/contract"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/encode"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/jsonspan"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/prose"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/internal/whole"
)

// Bounds of the packages below that tests of whole streams drive to.
const (
	maxCalls         = whole.MaxCalls
	maxCardID        = encode.MaxCardID
	maxCardLabel     = encode.MaxCardLabel
	maxCardName      = encode.MaxCardName
	maxIdleBuffer    = 16 << 10 // of sse
	maxEndedTools    = chat.MaxEndedTools
	maxEnvelope      = chunk.MaxEnvelope
	maxMessage       = contract.MaxMessage
	maxOpenBytes     = contract.MaxOpenBytes
	maxOpenTools     = contract.MaxOpenTools
	maxRedactedEdits = chunk.MaxRedactedEdits
	maxResponse      = agentapi.MaxResponse
	maxStretches     = prose.MaxStretches
	maxTemplate      = chat.MaxTemplate
	maxUsage         = chat.MaxUsage

	progressEvent = encode.ProgressEvent
)

func unquote(raw []byte) string { return jsonspan.Unquote(string(raw)) }

// inside returns a field of s or of what is in it, by the names of the fields.
func inside(s *Stream, names ...string) reflect.Value {
	v := reflect.ValueOf(s).Elem()
	for _, name := range names {
		for v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v = v.FieldByName(name); !v.IsValid() {
			panic("no field " + name)
		}
	}
	return v
}

// knows returns what a stream has learnt so far, as far as anything depends on it.
func knows(s *Stream) string {
	var b strings.Builder
	for _, name := range []string{"tools", "end", "Frames", "chunks", "keepalives", "usage"} {
		fmt.Fprintf(&b, "%s: %+v\n", name, inside(s, "chat", name))
	}
	fmt.Fprintf(&b, "envelope: %+v\n", inside(s, "chat", "w", "Env"))
	for _, name := range []string{"hasText", "hasReasoning", "droppedReasoning", "hasOther", "gaveUp", "noReply", "unexamined", "markers", "imitations", "stretches"} {
		fmt.Fprintf(&b, "%s: %+v\n", name, inside(s, "chat", "text", name))
	}
	for _, name := range []string{"fence", "tags", "begun", "afterMarker", "needsBreak", "dropNewlines", "pending", "lead"} {
		fmt.Fprintf(&b, "%s: %+v\n", name, inside(s, "chat", "text", "prose", name))
	}
	suspicion := inside(s, "chat", "text", "prose", "suspicion")
	size, tag := suspicion.FieldByName("size"), suspicion.FieldByName("tag")
	if fmt.Fprintf(&b, "suspicion: %v, %v, %v\n", size, tag, suspicion.FieldByName("here")); size.Int() > 0 { // a marker's: otherwise the line is room
		fmt.Fprintf(&b, "line: %+v\n", suspicion.FieldByName("line"))
	}
	fmt.Fprintf(&b, "held: %d\n", inside(s, "chat", "hold", "buf").Len())
	known := b.String()
	if opening := inside(s, "chat", "text", "prose", "tags", "opening"); opening.FieldByName("blocked").Bool() { // the indent is counted from the next line on
		known = strings.Replace(known, fmt.Sprintf("%+v", opening), "in a line", 1)
	}
	return known
}
