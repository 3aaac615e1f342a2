package resume

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/resume/log"
	"github.com/hermes-sidecar/hermes-sidecar/rewrite/sse"
)

// Bounds of the search for the name of a response.
const (
	// maxCreated is how many bytes at the beginning of a stream are searched for the id of its
	// response. Hermes' first event has 200.
	maxCreated = 16 << 10
	// namePatience is how long the first event of a response waits for a storage to take its name.
	namePatience = time.Second
)

// responseName finds the id of the response in the stream of a run, and has the log that makes it
// another name of the log of the run. If nil, it does nothing.
type responseName struct {
	frames sse.Scanner
	left   int        // how many bytes it still looks at
	log    log.Writer // nil if there is none
}

func newResponseName() *responseName {
	return &responseName{frames: sse.Scanner{MaxFrame: maxCreated}, left: maxCreated}
}

// look looks for the id in p, the next bytes of the log of e, and claims the name.
func (n *responseName) look(ctx context.Context, o *Options, e entry, p []byte) {
	if n == nil || n.left == 0 {
		return
	}
	n.frames.Feed(p)
	var frame sse.Frame
	for u, b, ok := n.frames.Next(); ok && n.left > 0; u, b, ok = n.frames.Next() {
		if u == sse.UnitNoise { // a request that has waited in line has any number of comments before
			continue
		}
		if n.left = max(0, n.left-len(b)); u != sse.UnitFrame {
			continue
		}
		frame.Parse(b)
		event := readEvent(frame.Data)
		if id, cancelled := cancelledOf(event.Response); event.Type == "response.created" && id != "" {
			n.left = 0
			n.log = claimName(ctx, o, e, id, cancelled)
			break
		}
	}
	if n.frames.Rest(); n.left == 0 {
		n.frames = sse.Scanner{}
	}
}

// end ends the log of the name.
func (n *responseName) end() {
	if n != nil && n.log != nil {
		endName(n.log)
	}
}

// endName ends w, a log without an answer.
func endName(w log.Writer) {
	_ = w.Append(context.Background(), log.Part{Header: make(http.Header)}) // only a log that has begun is kept
	w.End(log.Whole)
}

// cancelledOf returns the id of response, "" if it has none, and response with the status that the
// answer to a cancel request has.
func cancelledOf(response json.RawMessage) (id, cancelled string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(response, &members) != nil || json.Unmarshal(members["id"], &id) != nil {
		return "", ""
	}
	members["status"] = json.RawMessage(`"cancelled"`)
	text, _ := json.Marshal(members) // valid JSON
	return id, string(text)
}

// claimName makes the id of a response another name of the log of is. It returns nil if the store
// gives no log for the name, or another stream has it. cancelled is the answer to a cancel request.
func claimName(ctx context.Context, o *Options, is entry, id, cancelled string) log.Writer {
	ctx, stop := context.WithTimeout(ctx, namePatience)
	defer stop()
	e := entry{
		Entry: log.Entry{Keep: is.Keep, MaxStream: is.MaxStream, MaxMemory: is.MaxMemory, Empty: true},
		about: about{Owner: is.Owner, Of: is.ID, Cancelled: cancelled},
	}
	e.ID, e.Key = nameOf(o.Secret, e.Owner, nameOpen, id)
	return claimEmpty(ctx, o.Store, e)
}

// claimEmpty makes a log for e, which has no run, and returns its writer, nil if there is no log.
func claimEmpty(ctx context.Context, s log.Store, e entry) log.Writer {
	_, w, _ := e.claim(ctx, s, log.Run{ReadersChanged: func(int) {}, Cancel: func(log.Reason) {}})
	return w
}

// The kinds of names of a response.
const (
	nameOpen      = "response"
	nameCancelled = "cancelled response"
)

// nameOf returns the id and the key of the log that makes a response's id another name of a stream
// of owner. No client can know them.
func nameOf(secret []byte, owner log.Digest, kind, id string) (string, log.Digest) {
	d := hash(secret, [][]string{{string(owner[:])}, {kind, id}})
	return log.DerivedID(d), d
}
