package clients

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/hermes"
	"github.com/hermes-sidecar/hermes-sidecar/integration/harness/upstream"
)

// A playbook is an upstream that is told by the user's message what to answer,
// because that is all that every client sends as its program wants it: "kind
// recording nonce", such as "whole g0-v0.8.0/plain 17". It records when each answer
// came to its end or broke off.
type playbook struct {
	t    testing.TB
	recs map[string]hermes.Recording

	mu    sync.Mutex
	ended map[string]time.Time // by nonce
	taps  map[string]*tap      // by nonce
	asked map[string]int       // likewise
}

// The kinds of answers.
const (
	playWhole = "whole" // the recording, to its end
	playTorn  = "torn"  // half of it, and FIN inside a chunk
	playReset = "reset" // half of it, and RST
	playEarly = "early" // whole, but silent before the first frame
	playSlow  = "slow"  // whole, but silent in the middle
	playLost  = "lost"  // none: the request is read, and the connection closed
	playAsked = "asked" // whole, with what the newest Hermes says of its state in the middle
)

// asked are the events of a Hermes that waits for a person, with the members and in the
// order of its source. No released version sends them yet.
var asked = [][]byte{
	[]byte("event: hermes.status\n" + `data: {"kind": "lifecycle", "text": "\u23f3 Retrying in 2.0s (attempt 1/3)..."}` + "\n\n"),
	[]byte("event: approval.request\n" + `data: {"command": "rm -rf x", "pattern_key": "recursive delete", "pattern_keys": ["recursive delete"], "description": "recursive delete", "allow_permanent": true, "allow_session": true, "request_id": "0f3c9d5be1a84c6e9b7d2f4a6c8e0b1d", "event": "approval.request", "run_id": "chatcmpl-9f2c4e6a8b0d1f3a5c7e9b1d3f5a7", "timestamp": 1795164799.1, "session_id": "api-fa20b00e3b9c6a4c", "choices": ["once", "session", "always", "deny"]}` + "\n\n"),
}

func newPlaybook(t testing.TB) *playbook {
	p := &playbook{t: t, recs: map[string]hermes.Recording{}, ended: map[string]time.Time{}, taps: map[string]*tap{}, asked: map[string]int{}}
	for _, r := range hermes.Recordings(t, hermes.Chats) {
		p.recs[r.String()] = r
	}
	return p
}

// play is the upstream's script.
func (p *playbook) play(x *upstream.Exchange) {
	kind, rec, nonce := p.read(x.Body)
	p.mu.Lock()
	p.asked[nonce]++
	p.mu.Unlock()
	if kind == playLost {
		x.Fin()
		return
	}
	r, ok := p.recs[rec]
	if !ok {
		upstream.AsJSON("404 Not Found", `{"error":{"message":"no such recording"}}`)(x)
		return
	}
	frames := upstream.ByFrame.Cut(r.Body)
	if kind == playAsked {
		frames = slices.Insert(frames, len(frames)/2, asked...)
	}
	before := p.tapOf(nonce).answerCount()
	if kind == playWhole || kind == playEarly || kind == playSlow || kind == playAsked {
		x.Raw(r.Header)
		for i, f := range frames {
			if kind == playEarly && i == 0 || kind == playSlow && i == len(frames)/2 {
				p.tapOf(nonce).awaitAnswers(x, before+i+3) // header, frames, and two keepalives
			}
			if i == len(frames)-3 { // the finish chunk, [DONE], and nothing
				p.end(nonce)
			}
			x.Chunk(f)
		}
		x.End()
		return
	}
	half := len(frames) / 2
	x.Raw(r.Header)
	for _, f := range frames[:half] {
		x.Chunk(f)
	}
	part := frames[half][:len(frames[half])/2]
	if kind == playTorn {
		p.end(nonce)
		x.Torn(part)
		return
	}
	x.Chunk(part)
	p.tapOf(nonce).awaitAnswers(x, before+1) // a reset may overtake what was sent before it
	p.end(nonce)
	x.Reset()
}

// read finds the last user's message in a request.
func (p *playbook) read(body []byte) (kind, rec, nonce string) {
	var req struct {
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(body, &req) != nil || len(req.Messages) == 0 {
		return "", "", ""
	}
	raw := req.Messages[len(req.Messages)-1].Content
	var text string
	if json.Unmarshal(raw, &text) != nil {
		var parts []struct{ Text string }
		if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 {
			return "", "", ""
		}
		text = parts[0].Text
	}
	words := append(strings.Fields(text), "", "", "")
	return words[0], words[1], words[2]
}

// expect says on which way the answer with a nonce goes.
func (p *playbook) expect(nonce string, by *tap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taps[nonce] = by
}

// tapOf is the way of the answer with a nonce, nil for none.
func (p *playbook) tapOf(nonce string) *tap {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taps[nonce]
}

// requests is how often the answer with a nonce has been asked for.
func (p *playbook) requests(nonce string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[nonce]
}

func (p *playbook) end(nonce string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended[nonce] = time.Now()
}

// endOf is when the answer with a nonce came to its end or broke off.
func (p *playbook) endOf(nonce string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended[nonce]
}
